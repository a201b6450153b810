"""Where a Sudoku search guesses, compiled: a digit in a cell, or a pair in a matching.

Input: a state (see `solve.propagation`) at its fixed point. Output: a word of it, the bits to assume, and the
bits of the unit that this settles; excluding the guess clears the same bits.
Neighbours: `solve.sudoku_kernels` searches with these.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false
# (numba decides the types of kernels; their annotations are for readers)
from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trm_data.seeds.kernels import U0, U1, count_bits, lowest_bit, next_bounded

PLANES = 5  # bits of a candidate count of at most 16
_MANY = 1 << 30


@njit(cache=True, nogil=True)
def _nth_bit(cells: np.uint64, number: np.uint64) -> np.uint64:
    """The set bit of a word that has `number` set bits below it."""
    for _ in range(number):
        cells &= cells - U1
    return cells & (U0 - cells)


@njit(cache=True, nogil=True)
def find_fewest(
    state: NDArray[np.uint64], fewest: NDArray[np.uint64], planes: NDArray[np.uint64], side: int, bands: int
) -> int:
    """Set fewest[b] to the unplaced cells with the fewest candidates; return that number, 0 if solved.

    The candidates of all cells of a band are counted at once, in binary, one bit plane a word.
    """
    open_cells = U0
    for band in range(bands):
        seen = U0
        for plane in range(PLANES):
            planes[band * PLANES + plane] = U0
        for digit in range(side):
            carry = state[digit * bands + band]
            seen |= carry
            for plane in range(PLANES):
                kept = planes[band * PLANES + plane]
                planes[band * PLANES + plane] = kept ^ carry
                carry &= kept
                if carry == U0:
                    break
        fewest[band] = seen & ~state[side * bands + band]
        open_cells |= fewest[band]
    if open_cells == U0:
        return 0
    count = 0
    for plane in range(PLANES - 1, -1, -1):
        without = U0
        for band in range(bands):
            without |= fewest[band] & ~planes[band * PLANES + plane]
        if without != U0:
            for band in range(bands):
                fewest[band] &= ~planes[band * PLANES + plane]
        else:
            count += 1 << plane
    return count


@njit(cache=True, nogil=True)
def choose_cell(
    state: NDArray[np.uint64],
    fewest: NDArray[np.uint64],
    side: int,
    bands: int,
    randomised: bool,
    stream: NDArray[np.uint64],
) -> tuple[int, np.uint64, np.uint64]:
    """A candidate to assume: among the cells in `fewest` the first and its first digit, or random ones.

    Returns the word of its digit and band, its bit, and the bits of its row.
    """
    number = U0
    if randomised:
        total = U0
        for band in range(bands):
            total += count_bits(fewest[band])
        number = next_bounded(stream, total)
    band = 0
    while number >= count_bits(fewest[band]):
        number -= count_bits(fewest[band])
        band += 1
    cell = _nth_bit(fewest[band], number)
    candidates = U0
    for digit in range(side):
        if state[digit * bands + band] & cell != U0:
            candidates |= U1 << np.uint64(digit)
    if randomised:
        candidates = _nth_bit(candidates, next_bounded(stream, count_bits(candidates)))
    row = lowest_bit(cell) // np.uint64(side)
    row_cells = ((U1 << np.uint64(side)) - U1) << (row * np.uint64(side))
    return np.int64(lowest_bit(candidates)) * bands + band, cell, row_cells


@njit(cache=True, nogil=True)
def choose_pair(
    state: NDArray[np.uint64],
    shrink: NDArray[np.uint8],
    row_matchings: NDArray[np.uint8],
    column_matchings: NDArray[np.uint8],
    scratch: NDArray[np.uint64],
    box_rows: int,
    box_columns: int,
) -> tuple[int, np.uint64, np.uint64]:
    """A pair to assume: in the band or stack with the fewest matchings left, of the digit with the fewest.

    Returns a word, the bits of the pair in it, and those of the unit that the pair would settle.
    """
    side = box_rows * box_columns
    n = np.uint64(side)
    row_mask = (U1 << n) - U1
    stack_mask = (U1 << np.uint64(box_columns)) - U1
    best_total, best_digit, best_place, best_pairs = 1 << 30, 0, 0, U0
    for band in range(box_columns):
        total, fewest, at_digit, at_pairs = 0, 1 << 30, 0, U0
        for digit in range(side):
            cells = state[digit * box_columns + band]
            pairs = U0
            for row in range(box_rows):
                pairs |= np.uint64(shrink[(cells >> (np.uint64(row) * n)) & row_mask]) << np.uint64(
                    row * box_rows
                )
            matchings = np.int64(row_matchings[pairs])
            if matchings > 1:
                total += matchings
                if matchings < fewest:
                    fewest, at_digit, at_pairs = matchings, digit, pairs
        if 0 < total < best_total:
            best_total, best_digit, best_place, best_pairs = total, at_digit, band, at_pairs
    for stack in range(box_rows):
        shift = np.uint64(stack * box_columns)
        total, fewest, at_digit, at_pairs = 0, 1 << 30, 0, U0
        for digit in range(side):
            pairs = U0
            for band in range(box_columns):
                cells = state[digit * box_columns + band]
                columns = cells
                for row in range(1, box_rows):
                    columns |= cells >> (np.uint64(row) * n)
                pairs |= ((columns >> shift) & stack_mask) << np.uint64(band * box_columns)
            matchings = np.int64(column_matchings[pairs])
            if matchings > 1:
                total += matchings
                if matchings < fewest:
                    fewest, at_digit, at_pairs = matchings, digit, pairs
        if 0 < total < best_total:
            best_total, best_digit, best_place, best_pairs = total, at_digit, box_columns + stack, at_pairs
    # the pair is the first in a line (a row, or a band) that has several
    if best_place < box_columns:
        line = np.uint64(0)
        lines_mask = (U1 << np.uint64(box_rows)) - U1
        while True:
            in_line = (best_pairs >> (line * np.uint64(box_rows))) & lines_mask
            if in_line & (in_line - U1) != U0:
                break
            line += U1
        box = lowest_bit(in_line)
        cells = stack_mask << (line * n + box * np.uint64(box_columns))
        return best_digit * box_columns + best_place, cells, row_mask << (line * n)
    line = np.uint64(0)
    shift = np.uint64((best_place - box_columns) * box_columns)
    while True:
        in_line = (best_pairs >> (line * np.uint64(box_columns))) & stack_mask
        if in_line & (in_line - U1) != U0:
            break
        line += U1
    column = lowest_bit(in_line)
    cells, box_cells = U0, U0
    for row in range(box_rows):
        cells |= U1 << (np.uint64(row) * n + shift + column)
        box_cells |= stack_mask << (np.uint64(row) * n + shift)
    return best_digit * box_columns + np.int64(line), cells, box_cells
