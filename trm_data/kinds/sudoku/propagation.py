"""Constraint propagation for Sudoku without guesses, compiled, on bit boards.

Input: a state, and the tables of `kinds.sudoku.solve.make_tables` for its box shape. Output: the state at its fixed
point. Neighbours: `kinds.sudoku.solve_kernels` chooses the next guess, `kinds.sudoku.solve_kernels` searches.

A state is uint64[n * C + C] for boxes of R rows and C columns, R <= C (others are solved transposed).
Word d * C + b holds the candidates of digit d in band b: R * n bits, row after row, so 27 for 9x9 and 64
for 16x16. Word n * C + b holds the cells of band b that are placed: solved, and taken from other digits.

Propagation, to a fixed point:
1. For one digit in one band, the occupied (row, box) pairs must contain a perfect matching of rows to
   boxes; pairs in no matching are cleared. For one digit in one stack, the same with bands and columns.
   Both are one table look-up. Together they are hidden singles in rows, columns and boxes, eliminations
   along them, and locked candidates with the fish inside one band or stack.
2. A candidate alone in its row is placed: taken from the other digits of its cell.
3. A cell with one digit left takes it (naked single). A cell or unit with none is a contradiction.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false
# (numba infers the types of kernels; their annotations are for readers)
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.kernel import inner_kernel, kernel
from trm_data.kinds.sudoku.nine import load_clues_nine, propagate_nine
from trm_data.seeds.kernels import U0, U1, lowest_bit


@inner_kernel(forceinline=True)
def _match_rows(
    state: NDArray[np.uint64],
    base: int,
    shrink: NDArray[np.uint8],
    row_cells: NDArray[np.uint64],
    box_rows: int,
    box_columns: int,
) -> bool:
    """Clear the (row, box) pairs of one digit that are in no matching; return False if a band has none."""
    n = np.uint64(box_rows * box_columns)
    row_mask = (U1 << n) - U1
    for band in range(box_columns):
        cells = state[base + band]
        pairs = U0
        for row in range(box_rows):
            occupied = np.uint64(shrink[(cells >> (np.uint64(row) * n)) & row_mask])
            pairs |= occupied << np.uint64(row * box_rows)
        cells &= row_cells[pairs]
        if cells == U0:
            return False
        state[base + band] = cells
    return True


@inner_kernel(forceinline=True)
def _match_columns(
    state: NDArray[np.uint64],
    base: int,
    column_pairs: NDArray[np.uint16],
    scratch: NDArray[np.uint64],
    box_rows: int,
    box_columns: int,
) -> int:
    """Do the same for (band, column) pairs; return 0 if nothing changed, 1 if something did, 2 for a contradiction."""
    n = np.uint64(box_rows * box_columns)
    row_mask = (U1 << n) - U1
    stack_mask = (U1 << np.uint64(box_columns)) - U1
    for band in range(box_columns):
        cells = state[base + band]
        columns = cells
        for row in range(1, box_rows):
            columns |= cells >> (np.uint64(row) * n)
        scratch[band] = columns & row_mask
        scratch[box_columns + band] = U0
    changed = False
    for stack in range(box_rows):
        shift = np.uint64(stack * box_columns)
        pairs = U0
        for band in range(box_columns):
            pairs |= ((scratch[band] >> shift) & stack_mask) << np.uint64(band * box_columns)
        matched = np.uint64(column_pairs[pairs])
        if matched == U0:
            return 2
        if matched != pairs:
            changed = True
            lost = pairs & ~matched
            for band in range(box_columns):
                scratch[box_columns + band] |= ((lost >> np.uint64(band * box_columns)) & stack_mask) << shift
    if not changed:
        return 0
    for band in range(box_columns):
        lost = scratch[box_columns + band]
        for row in range(box_rows):
            state[base + band] &= ~(lost << (np.uint64(row) * n))
    return 1


@inner_kernel(forceinline=True)
def _clear_columns(state: NDArray[np.uint64], base: int, box_rows: int, box_columns: int) -> int:
    """Clear the columns of solved cells in the other bands, without a table; return 1 if something changed."""
    n = np.uint64(box_rows * box_columns)
    row_mask = (U1 << n) - U1
    changed = 0
    for band in range(box_columns):
        columns = U0
        for row in range(box_rows):
            in_row = (state[base + band] >> (np.uint64(row) * n)) & row_mask
            if in_row & (in_row - U1) == U0:
                columns |= in_row
        lost = columns
        for row in range(1, box_rows):
            lost |= columns << (np.uint64(row) * n)
        for other in range(box_columns):
            if other != band and state[base + other] & lost != U0:
                state[base + other] &= ~lost
                changed = 1
    return changed


@inner_kernel(forceinline=True)
def _place_singles(state: NDArray[np.uint64], digit: int, box_rows: int, box_columns: int) -> np.uint64:
    """Remove the newly solved cells of a digit from the others; return the set of digits that lost a cell."""
    side = box_rows * box_columns
    n = np.uint64(side)
    row_mask = (U1 << n) - U1
    dirty = U0
    for band in range(box_columns):
        cells = state[digit * box_columns + band]
        solved = U0
        for row in range(box_rows):
            shift = np.uint64(row) * n
            in_row = (cells >> shift) & row_mask
            if in_row & (in_row - U1) == U0:
                solved |= in_row << shift
        solved &= ~state[side * box_columns + band]
        if solved != U0:
            state[side * box_columns + band] |= solved
            for other in range(side):
                if other != digit and state[other * box_columns + band] & solved != U0:
                    state[other * box_columns + band] &= ~solved
                    dirty |= U1 << np.uint64(other)
    return dirty


@inner_kernel(forceinline=True)
def _naked_singles(state: NDArray[np.uint64], box_rows: int, box_columns: int) -> np.uint64:
    """Assign cells with one digit left to it; return the set of digits that gained, or all ones if impossible."""
    side = box_rows * box_columns
    n = np.uint64(side)
    row_mask = (U1 << n) - U1
    full = ~U0 >> (np.uint64(64) - np.uint64(box_rows) * n)
    dirty = U0
    for band in range(box_columns):
        once, twice = U0, U0
        for digit in range(side):
            cells = state[digit * box_columns + band]
            twice |= once & cells
            once |= cells
        if once != full:
            return ~U0
        naked = once & ~twice & ~state[side * box_columns + band]
        if naked == U0:
            continue
        for digit in range(side):
            cells = state[digit * box_columns + band]
            gained = cells & naked
            if gained == U0:
                continue
            dirty |= U1 << np.uint64(digit)
            for row in range(box_rows):
                row_cells = row_mask << (np.uint64(row) * n)
                in_row = gained & row_cells
                if in_row & (in_row - U1) != U0:
                    return ~U0  # two cells of a row have only this digit left
                if in_row != U0:
                    cells &= in_row | ~row_cells
            state[digit * box_columns + band] = cells
    return dirty


@kernel
def propagate_any(
    state: NDArray[np.uint64],
    dirty: np.uint64,
    shrink: NDArray[np.uint8],
    row_cells: NDArray[np.uint64],
    column_pairs: NDArray[np.uint16],
    scratch: NDArray[np.uint64],
    box_rows: int,
    box_columns: int,
) -> bool:
    """Bring a state to its fixed point, starting from the digits in `dirty`; return False if impossible."""
    while True:
        while dirty != U0:
            digit = np.int64(lowest_bit(dirty))
            dirty &= dirty - U1
            base = digit * box_columns
            while True:
                if not _match_rows(state, base, shrink, row_cells, box_rows, box_columns):
                    return False
                if column_pairs.shape[0] > 1:
                    outcome = _match_columns(state, base, column_pairs, scratch, box_rows, box_columns)
                else:  # boxes wider than 4 have no table
                    outcome = _clear_columns(state, base, box_rows, box_columns)
                if outcome == 2:
                    return False
                if outcome == 0:
                    break
            dirty |= _place_singles(state, digit, box_rows, box_columns)
        dirty = _naked_singles(state, box_rows, box_columns)
        if dirty == ~U0:
            return False
        if dirty == U0:
            return True


@inner_kernel
def propagate(
    stack: NDArray[np.uint64],
    depth: int,
    to: int,
    word: int,
    kept: np.uint64,
    dirty: np.uint64,
    shrink: NDArray[np.uint8],
    row_cells: NDArray[np.uint64],
    column_pairs: NDArray[np.uint16],
    scratch: NDArray[np.uint64],
    box_rows: int,
    box_columns: int,
) -> bool:
    """Set stack[to] to the fixed point of stack[depth] after masking `word` with `kept`.

    Return False if that is impossible; stack[to] is then unchanged for 3x3 boxes, and partly propagated for others.

    `dirty`: the digits that lost candidates since the last fixed point. It, the tables and `scratch` are only used for
    shapes other than 3x3.
    """
    if box_rows == 3 and box_columns == 3:
        return propagate_nine(stack[depth], stack[to], word, kept)
    if to != depth:
        for i in range((box_rows * box_columns + 1) * box_columns):
            stack[to, i] = stack[depth, i]
    stack[to, word] &= kept
    return propagate_any(stack[to], dirty, shrink, row_cells, column_pairs, scratch, box_rows, box_columns)


@inner_kernel
def load_clues(state: NDArray[np.uint64], grid: NDArray[np.uint8], box_rows: int, box_columns: int) -> None:
    """Set a state to the candidates that the clues of a flat grid leave in their own cells and rows."""
    if box_rows == 3 and box_columns == 3:
        load_clues_nine(state, grid)
    else:
        load_clues_any(state, grid, box_rows, box_columns)


@kernel
def load_clues_any(
    state: NDArray[np.uint64], grid: NDArray[np.uint8], box_rows: int, box_columns: int
) -> None:
    """Do the same for all shapes of boxes."""
    side = box_rows * box_columns
    n = np.uint64(side)
    row_mask = (U1 << n) - U1
    full = ~U0 >> (np.uint64(64) - np.uint64(box_rows) * n)
    for i in range(state.shape[0]):
        state[i] = full if i < side * box_columns else U0
    for band in range(box_columns):
        clues = U0
        for i in range(box_rows * side):
            if grid[band * box_rows * side + i] != 0:
                clues |= U1 << np.uint64(i)
        for digit in range(side):
            state[digit * box_columns + band] &= ~clues
        for i in range(box_rows * side):
            value = grid[band * box_rows * side + i]
            if value != 0:
                word = (np.int64(value) - 1) * box_columns + band
                row_cells = row_mask << (np.uint64(i // side) * n)
                # bits of other clues of this digit in the row are cleared too, which shows a contradiction
                state[word] = (state[word] & ~row_cells) | (U1 << np.uint64(i))
