"""Augmented Sudoku rows in bulk, compiled: from element numbers to encoded tokens.

Input: puzzles, solutions, and the augmentations to make. Output: rows of tokens, written in place.
Neighbours: wrapped by `augment.sudoku.SudokuAugmenter.fill`, which checks the arguments; tested there against
`SudokuSymmetry.from_index(element_index(...)).apply(...)`.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false
# (numba infers the types of kernels; their annotations are for readers)
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.kernel import inner_kernel, kernel
from trm_data.seeds.kernels import U0, U1, feistel, mix

_CLUE = 32  # flag in a packed cell, above the largest digit
_U4, _U15 = np.uint64(4), np.uint64(15)


@inner_kernel
def _decode_lines(
    rank: int, inner: NDArray[np.uint8], outer: NDArray[np.uint8], lines: NDArray[np.uint8]
) -> None:
    """Write the order of lines with this rank: a permutation of bands, then one of the lines in each."""
    bands, size = outer.shape[1], inner.shape[1]
    order = rank % outer.shape[0]
    rank //= outer.shape[0]
    for i in range(bands):
        within = rank % inner.shape[0]
        rank //= inner.shape[0]
        for j in range(size):
            lines[i * size + j] = outer[order, i] * size + inner[within, j]


@kernel
def fill_lines(table: NDArray[np.uint8], inner: NDArray[np.uint8], outer: NDArray[np.uint8]) -> None:
    """Fill row r of a table with the order of lines of rank r."""
    for rank in range(table.shape[0]):
        _decode_lines(rank, inner, outer, table[rank])


@inner_kernel(forceinline=True)
def _decode_digits(
    rank: np.uint64, side: int, places: NDArray[np.uint64], tokens: NDArray[np.uint16]
) -> None:
    """Fill the table from packed cell to (label token << 8 | input token) for a digit permutation.

    The digits of the rank in the factorial base select from the remaining digits, stored as nibbles.
    """
    places[side - 1] = U0
    for radix in range(2, side + 1):
        places[side - radix] = rank % np.uint64(radix)
        rank //= np.uint64(radix)
    left = np.uint64(0xFEDCBA9876543210)
    for digit in range(1, side + 1):
        shift = places[digit - 1] * _U4
        token = np.uint16(((left >> shift) & _U15) + np.uint64(2))
        tokens[digit] = token << np.uint16(8) | np.uint16(1)
        tokens[digit + _CLUE] = token << np.uint16(8) | token
        below = (U1 << shift) - U1
        left = (left & below) | ((left >> _U4) & ~below)


@inner_kernel(forceinline=True)
def _write_row(
    cells: NDArray[np.uint8],
    transpose: np.uint64,
    rows: NDArray[np.uint8],
    columns: NDArray[np.uint8],
    tokens: NDArray[np.uint16],
    side: int,
    inputs: NDArray[np.uint8],
    labels: NDArray[np.uint8],
) -> None:
    if transpose != U0:
        for i in range(side):
            line = np.uint64(rows[i])
            for j in range(side):
                both = tokens[cells[np.uint64(columns[j]) * np.uint64(side) + line]]
                inputs[i * side + j] = np.uint8(both & np.uint16(255))
                labels[i * side + j] = np.uint8(both >> np.uint16(8))
    else:
        for i in range(side):
            start = np.uint64(rows[i]) * np.uint64(side)
            for j in range(side):
                both = tokens[cells[start + np.uint64(columns[j])]]
                inputs[i * side + j] = np.uint8(both & np.uint16(255))
                labels[i * side + j] = np.uint8(both >> np.uint16(8))


@inner_kernel(forceinline=True)
def _augment_row(
    structure: np.uint64,
    rank: np.uint64,
    radices: NDArray[np.int64],
    inner_rows: NDArray[np.uint8],
    inner_columns: NDArray[np.uint8],
    row_table: NDArray[np.uint8],
    column_table: NDArray[np.uint8],
    packed: NDArray[np.uint8],
    lines: NDArray[np.uint8],
    places: NDArray[np.uint64],
    tokens: NDArray[np.uint16],
    side: int,
    inputs: NDArray[np.uint8],
    labels: NDArray[np.uint8],
) -> None:
    """Apply one element, given as structure and digit rank, to a packed puzzle."""
    rest = structure // np.uint64(radices[0])
    transpose = structure - rest * np.uint64(radices[0])
    columns_rank = rest // np.uint64(radices[1])
    rows_rank = rest - columns_rank * np.uint64(radices[1])
    _decode_digits(rank, side, places, tokens)
    if row_table.shape[0] > 0 and column_table.shape[0] > 0:
        _write_row(
            packed, transpose, row_table[rows_rank], column_table[columns_rank], tokens, side, inputs, labels
        )
    else:
        _decode_lines(np.int64(rows_rank), inner_rows, inner_columns, lines[0])
        _decode_lines(np.int64(columns_rank), inner_columns, inner_rows, lines[1])
        _write_row(packed, transpose, lines[0], lines[1], tokens, side, inputs, labels)


@kernel
def pack(puzzles: NDArray[np.uint8], solutions: NDArray[np.uint8], packed: NDArray[np.uint8]) -> None:
    """Fill packed [G, S] with solution digits and a flag on clues."""
    for g in range(puzzles.shape[0]):
        for i in range(puzzles.shape[1]):
            packed[g, i] = solutions[g, i] + (_CLUE if puzzles[g, i] != 0 else 0)


@kernel
def augment_rows(
    packed: NDArray[np.uint8],
    keys: NDArray[np.uint64],
    groups: NDArray[np.int64],
    ks: NDArray[np.int64],
    radices: NDArray[np.int64],
    inner_rows: NDArray[np.uint8],
    inner_columns: NDArray[np.uint8],
    row_table: NDArray[np.uint8],
    column_table: NDArray[np.uint8],
    box_rows: int,
    box_columns: int,
    out_inputs: NDArray[np.uint8],
    out_labels: NDArray[np.uint8],
    elements: NDArray[np.int64],
) -> None:
    """Write the rows of `augment.sudoku.SudokuAugmenter.fill`, which describes `radices` and the tables."""
    side = box_rows * box_columns
    lines = np.empty((2, side), np.uint8)
    places = np.empty(side, np.uint64)
    tokens = np.zeros(2 * _CLUE, np.uint16)
    structures = np.uint64(radices[0] * radices[1] * radices[2])
    others = structures * np.uint64(radices[3]) - U1
    stride = np.uint64(radices[4])
    permutations = U1
    for i in range(2, side + 1):
        permutations *= np.uint64(i)
    for m in range(groups.shape[0]):
        g = groups[m]
        element = U0
        if ks[m] > 0:
            element = U1 + feistel(keys[g], np.uint64(ks[m] - 1), others)
        elements[m] = np.int64(element)
        rank = element // structures
        structure = element - rank * structures
        if stride != U1:
            rank = (rank * stride + mix(structure) % permutations) % permutations
        if side == 9:  # constant sizes: the compiler unrolls loops and avoids divisions
            _augment_row(
                structure, rank, radices, inner_rows, inner_columns, row_table, column_table, packed[g],
                lines, places, tokens, 9, out_inputs[m], out_labels[m],
            )  # fmt: skip
        else:
            _augment_row(
                structure, rank, radices, inner_rows, inner_columns, row_table, column_table, packed[g],
                lines, places, tokens, side, out_inputs[m], out_labels[m],
            )  # fmt: skip
