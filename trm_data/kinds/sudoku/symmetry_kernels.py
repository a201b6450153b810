"""Symmetries of Sudoku in bulk, compiled: augmented rows, and canonical forms by individualisation and refinement.

`augment_rows` writes the encoded rows of puzzles, solutions and element numbers in place. It is wrapped by
`kinds.sudoku.symmetry.SudokuAugmenter.fill`, which checks the arguments; tested there against
`SudokuSymmetry.from_index(element).apply(...)`.

`canonicalize_many` returns the form of a puzzle with its only solution, and the number of automorphisms
(`kinds.sudoku.symmetry.canonicalize` explains the form).
Rows, columns, boxes and digits carry colours, words computed only from the structure, so equivalent puzzles
get the same colours whatever their order. Refinement hashes the colours around each cell (of the solved
grid, with a mark on clues) back into its row, column, box and digit until no class splits. If rows or
columns still share a colour, each member of one class is marked in turn and refined again. At a leaf all
rows and columns differ, which fixes their order; the first row of the solution fixes the digits.
The form is the smallest puzzle among the leaves with the smallest traces (sums of the colours, node by node).
Leaves correspond to symmetries one to one, so the leaves that give the form are its automorphisms.
A collision of colours could only cost time: it splits less, and equally for all equivalent puzzles.
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


_ROW = np.uint64(0x9E3779B97F4A7C15)
_COLUMN = np.uint64(0xC2B2AE3D27D4EB4F)
_BOX = np.uint64(0xD6E8FEB86659FD93)
_DIGIT = np.uint64(0xA0761D6478BD642F)
_CLUE_COLOUR = np.uint64(0xE7037ED1A0B428DB)
_MARK = np.uint64(0x8EBC6AF09C88C6E3)
_ROWS, _COLUMNS, _BOXES, _DIGITS = 0, 1, 2, 3


@inner_kernel
def _distinct(colours: NDArray[np.uint64]) -> int:
    """Return the number of distinct words."""
    count = 0
    for i in range(colours.shape[0]):
        new = 1
        for j in range(i):
            if colours[j] == colours[i]:
                new = 0
                break
        count += new
    return count


@inner_kernel
def _refine(
    colours: NDArray[np.uint64],
    sums: NDArray[np.uint64],
    solution: NDArray[np.uint8],
    puzzle: NDArray[np.uint8],
    box_rows: int,
    box_columns: int,
) -> np.uint64:
    """Refine colours [4, n] until no class splits; return the trace, its lowest bit 1 at a leaf."""
    side = box_rows * box_columns
    classes = 0
    while True:
        for kind in range(4):
            for i in range(side):
                sums[kind, i] = U0
        for row in range(side):
            for column in range(side):
                box = row // box_rows * box_rows + column // box_columns
                cell = row * side + column
                digit = np.int64(solution[cell]) - 1
                around = colours[_ROWS, row] * _ROW + colours[_COLUMNS, column] * _COLUMN
                around += colours[_BOXES, box] * _BOX + colours[_DIGITS, digit] * _DIGIT
                if puzzle[cell] != 0:
                    around += _CLUE_COLOUR
                around = mix(around)
                sums[_ROWS, row] += around
                sums[_COLUMNS, column] += around
                sums[_BOXES, box] += around
                sums[_DIGITS, digit] += around
        for kind in range(4):
            for i in range(side):
                colours[kind, i] = mix(colours[kind, i] * _ROW + sums[kind, i])
        now = 0
        for kind in range(4):
            now += _distinct(colours[kind])
        if now == classes:
            break
        classes = now
    trace = U0
    for kind in range(4):
        part = U0
        for i in range(side):
            part += mix(colours[kind, i])
        trace = mix(trace * _ROW + part)
    leaf = _distinct(colours[_ROWS]) == side and _distinct(colours[_COLUMNS]) == side
    return trace | U1 if leaf else trace & ~U1


@inner_kernel
def _mark_cycles(
    colours: NDArray[np.uint64],
    solution: NDArray[np.uint8],
    columns: bool,
    size: int,
    next_digit: NDArray[np.int64],
) -> None:
    """Add to each line's colour the cycle lengths of the permutations that map its digits to other lines' digits.

    Refinement sees no differences within a full grid; cycle lengths distinguish most of its lines.
    """
    side = colours.shape[0]
    for i in range(side):
        for other in range(side):
            if other == i:
                continue
            for j in range(side):
                here, there = (
                    (j * side + i, j * side + other) if columns else (i * side + j, other * side + j)
                )
                next_digit[solution[here] - 1] = np.int64(solution[there]) - 1
            lengths = U0
            for digit in range(side):
                length = U0
                at = digit
                while next_digit[at] >= 0:
                    step = next_digit[at]
                    next_digit[at] = -1
                    at = step
                    length += U1
                if length > U0:
                    lengths += mix(length)
            colours[i] += mix(lengths + (_MARK if other // size == i // size else U0))


@inner_kernel
def _choose_class(colours: NDArray[np.uint64], side: int) -> tuple[int, np.uint64]:
    """Return the kind and colour to branch on: of rows or columns, whichever have fewer colours (rows if equal),
    the smallest class with several members. Marking its members in turn splits the rest fastest."""
    row_count, column_count = _distinct(colours[_ROWS]), _distinct(colours[_COLUMNS])
    kind = _COLUMNS if column_count < row_count else _ROWS
    best_size, best_colour = side + 1, U0
    for i in range(side):
        size = 0
        for j in range(side):
            if colours[kind, j] == colours[kind, i]:
                size += 1
        if size > 1 and (size < best_size or (size == best_size and colours[kind, i] < best_colour)):
            best_size, best_colour = size, colours[kind, i]
    return kind, best_colour


@inner_kernel
def _order_lines(colours: NDArray[np.uint64], size: int, order: NDArray[np.int64]) -> None:
    """Sort lines by the smallest colour in their band of `size`, then by their own."""
    side = colours.shape[0]
    for i in range(side):
        band = colours[i // size * size]
        for j in range(i // size * size, i // size * size + size):
            band = min(band, colours[j])
        at = i
        while at > 0:
            other = order[at - 1]
            other_band = colours[other // size * size]
            for j in range(other // size * size, other // size * size + size):
                other_band = min(other_band, colours[j])
            if other_band < band or (other_band == band and colours[other] < colours[i]):
                break
            order[at] = other
            at -= 1
        order[at] = i


@inner_kernel
def _compare_leaf(
    solution: NDArray[np.uint8],
    puzzle: NDArray[np.uint8],
    orders: NDArray[np.int64],
    labels: NDArray[np.uint8],
    form: NDArray[np.uint8],
    have_form: bool,
) -> int:
    """Write the leaf's form if it is the first or smaller (return 1); return 0 if equal, -1 if it is larger."""
    side = labels.shape[0] - 1
    for j in range(side):
        labels[solution[orders[0, 0] * side + orders[1, j]]] = j + 1
    smaller = not have_form
    for i in range(side):
        for j in range(side):
            cell = orders[0, i] * side + orders[1, j]
            value = labels[solution[cell]] if puzzle[cell] != 0 else np.uint8(0)
            if not smaller and value != form[i * side + j]:
                if value > form[i * side + j]:
                    return -1
                smaller = True
            form[i * side + j] = value
    return 1 if smaller else 0


@inner_kernel
def _canonicalize(
    grids: NDArray[np.uint8],
    orientations: int,
    box_rows: int,
    box_columns: int,
    levels: NDArray[np.uint64],
    sums: NDArray[np.uint64],
    traces: NDArray[np.uint64],
    branches: NDArray[np.int64],
    branch_colours: NDArray[np.uint64],
    orders: NDArray[np.int64],
    labels: NDArray[np.uint8],
    next_digit: NDArray[np.int64],
    form: NDArray[np.uint8],
) -> int:
    """Fill `form` from grids [orientation, (puzzle, solution), S]; return the number of automorphisms."""
    side = box_rows * box_columns
    best_length, automorphisms = np.int64(0), np.int64(0)
    have_form = best_length > 0  # a literal False would compile `_compare_leaf` twice
    for orientation in range(orientations):
        puzzle, solution = grids[orientation, 0], grids[orientation, 1]
        for line in range(4 * side):
            levels[0, line // side, line % side] = U0
        depth = 0
        entering = True
        while depth >= 0:
            if entering:
                trace = _refine(levels[depth], sums, solution, puzzle, box_rows, box_columns)
                entering = False
                if depth == 0 and trace & U1 == U0:
                    _mark_cycles(levels[0, _ROWS], solution, np.bool_(False), box_rows, next_digit)
                    _mark_cycles(levels[0, _COLUMNS], solution, np.bool_(True), box_columns, next_digit)
                    trace = _refine(levels[0], sums, solution, puzzle, box_rows, box_columns)
                if depth < best_length and trace > traces[depth]:
                    depth -= 1
                    continue
                if depth >= best_length or trace < traces[depth]:
                    traces[depth] = trace
                    best_length, have_form, automorphisms = depth + 1, False, 0
                if trace & U1 != U0:
                    _order_lines(levels[depth, _ROWS], box_rows, orders[0])
                    _order_lines(levels[depth, _COLUMNS], box_columns, orders[1])
                    outcome = _compare_leaf(solution, puzzle, orders, labels, form, have_form)
                    if outcome == 1:
                        have_form, automorphisms = True, 1
                    elif outcome == 0:
                        automorphisms += 1
                    depth -= 1
                    continue
                kind, colour = _choose_class(levels[depth], side)
                branches[depth, 0], branches[depth, 1] = kind, 0
                branch_colours[depth] = colour
            kind, member = branches[depth, 0], branches[depth, 1]
            while member < side and levels[depth, kind, member] != branch_colours[depth]:
                member += 1
            if member == side:
                depth -= 1
                continue
            branches[depth, 1] = member + 1
            for line in range(4 * side):
                levels[depth + 1, line // side, line % side] = levels[depth, line // side, line % side]
            levels[depth + 1, kind, member] = mix(levels[depth, kind, member] ^ _MARK)
            depth += 1
            entering = True
    return automorphisms


@kernel
def canonicalize_many(
    puzzles: NDArray[np.uint8],
    solutions: NDArray[np.uint8],
    box_rows: int,
    box_columns: int,
    forms: NDArray[np.uint8],
    automorphisms: NDArray[np.int64],
) -> None:
    """Fill forms [N, S] and automorphisms [N]."""
    side = box_rows * box_columns
    orientations = 2 if box_rows == box_columns else 1
    grids = np.empty((2, 2, side * side), np.uint8)
    levels = np.empty((2 * side + 1, 4, side), np.uint64)
    sums = np.empty((4, side), np.uint64)
    traces = np.empty(2 * side + 1, np.uint64)
    branches = np.empty((2 * side + 1, 2), np.int64)
    branch_colours = np.empty(2 * side + 1, np.uint64)
    orders = np.empty((2, side), np.int64)
    labels = np.empty(side + 1, np.uint8)
    next_digit = np.empty(side, np.int64)
    for i in range(puzzles.shape[0]):
        for row in range(side):
            for column in range(side):
                cell, mirrored = row * side + column, column * side + row
                grids[0, 0, cell], grids[1, 0, mirrored] = puzzles[i, cell], puzzles[i, cell]
                grids[0, 1, cell], grids[1, 1, mirrored] = solutions[i, cell], solutions[i, cell]
        automorphisms[i] = _canonicalize(
            grids, orientations, box_rows, box_columns, levels, sums, traces, branches, branch_colours,
            orders, labels, next_digit, forms[i],
        )  # fmt: skip
