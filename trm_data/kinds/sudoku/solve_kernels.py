"""The Sudoku solver's compiled core: depth-first search, and its guesses: a digit in a cell, or a pair in a matching.

Input: puzzles, and the tables of `kinds.sudoku.solve.make_tables` for their box shape. Output: solutions and guess
counts. A guess is made in a state (see `kinds.sudoku.propagation`) at its fixed point: a word of it, the bits to
assume, and the bits of the unit that this decides; excluding the guess clears the same bits.
Neighbours: `kinds.sudoku.propagation` has the other step; wrapped by `kinds.sudoku.solve`;
`kinds.sudoku.generate_kernels` drives the same search.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false
# (numba infers the types of kernels; their annotations are for readers)
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.kernel import inner_kernel, kernel
from trm_data.kinds.sudoku.nine import find_fewest_matchings
from trm_data.kinds.sudoku.propagation import load_clues, propagate
from trm_data.seeds.kernels import U0, U1, count_bits, lowest_bit, next_bounded

PLANES = 5  # bits of a candidate count of at most 16
_MANY = 1 << 30


@inner_kernel
def _nth_bit(cells: np.uint64, number: np.uint64) -> np.uint64:
    """Return the set bit of a word that has `number` set bits below it."""
    for _ in range(number):
        cells &= cells - U1
    return cells & (U0 - cells)


@inner_kernel(forceinline=True)
def is_solved(state: NDArray[np.uint64], box_rows: int, box_columns: int) -> bool:
    """Return whether all cells of a state at its fixed point are placed."""
    full = ~U0 >> (np.uint64(64) - np.uint64(box_rows * box_rows * box_columns))
    placed = full
    for band in range(box_columns):
        placed &= state[box_rows * box_columns * box_columns + band]
    return placed == full


@inner_kernel
def find_fewest(
    state: NDArray[np.uint64], fewest: NDArray[np.uint64], planes: NDArray[np.uint64], side: int, bands: int
) -> None:
    """Set fewest[b] to the unplaced cells of band b with the fewest candidates; at least one cell must be unplaced.

    Usually these are cells with two candidates. Otherwise the candidates of all cells of a band are counted at once,
    in binary, one bit plane per word.
    """
    two_left = U0
    for band in range(bands):
        once, twice, thrice = U0, U0, U0
        for digit in range(side):
            cells = state[digit * bands + band]
            thrice |= twice & cells
            twice |= once & cells
            once |= cells
        fewest[band] = twice & ~thrice
        two_left |= fewest[band]
    if two_left != U0:
        return
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
    for plane in range(PLANES - 1, -1, -1):
        without = U0
        for band in range(bands):
            without |= fewest[band] & ~planes[band * PLANES + plane]
        if without != U0:
            for band in range(bands):
                fewest[band] &= ~planes[band * PLANES + plane]


@inner_kernel(forceinline=True)
def _row_of(cell: np.uint64, side: int) -> np.uint64:
    """Return the cells of a cell's row."""
    row = lowest_bit(cell) // np.uint64(side)
    return ((U1 << np.uint64(side)) - U1) << (row * np.uint64(side))


@inner_kernel
def choose_first(
    state: NDArray[np.uint64], fewest: NDArray[np.uint64], side: int, bands: int
) -> tuple[int, np.uint64, np.uint64]:
    """Return a candidate to assume, in the form of `choose_cell`: the first cell in `fewest` and its first digit."""
    band, digit = 0, 0
    while fewest[band] == U0:
        band += 1
    cell = fewest[band] & (U0 - fewest[band])
    while state[digit * bands + band] & cell == U0:
        digit += 1
    return digit * bands + band, cell, _row_of(cell, side)


@inner_kernel
def choose_cell(
    state: NDArray[np.uint64], fewest: NDArray[np.uint64], side: int, bands: int, stream: NDArray[np.uint64]
) -> tuple[int, np.uint64, np.uint64]:
    """Return a candidate to assume: a random cell in `fewest`, and a random one of its digits.

    The result is the word of its digit and band, its bit, and the bits of its row.
    """
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
    candidates = _nth_bit(candidates, next_bounded(stream, count_bits(candidates)))
    return np.int64(lowest_bit(candidates)) * bands + band, cell, _row_of(cell, side)


@inner_kernel(forceinline=True)
def _row_pairs(
    cells: np.uint64, shrink: NDArray[np.uint8], row_mask: np.uint64, n: np.uint64, box_rows: int
) -> np.uint64:
    """Return the (row, box) pairs of the candidates of one digit in a band."""
    pairs = U0
    for row in range(box_rows):
        pairs |= np.uint64(shrink[(cells >> (np.uint64(row) * n)) & row_mask]) << np.uint64(row * box_rows)
    return pairs


@inner_kernel(forceinline=True)
def _column_pairs(
    state: NDArray[np.uint64], digit: int, stack: int, box_rows: int, box_columns: int
) -> np.uint64:
    """Return the (band, column) pairs of the candidates of a digit in a stack."""
    n = np.uint64(box_rows * box_columns)
    shift = np.uint64(stack * box_columns)
    stack_mask = (U1 << np.uint64(box_columns)) - U1
    pairs = U0
    for band in range(box_columns):
        cells = state[digit * box_columns + band]
        columns = cells
        for row in range(1, box_rows):
            columns |= cells >> (np.uint64(row) * n)
        pairs |= ((columns >> shift) & stack_mask) << np.uint64(band * box_columns)
    return pairs


@kernel
def _find_fewest_matchings(
    state: NDArray[np.uint64],
    shrink: NDArray[np.uint8],
    row_matchings: NDArray[np.uint8],
    column_matchings: NDArray[np.uint8],
    box_rows: int,
    box_columns: int,
) -> tuple[int, int]:
    """Return the band or (after the bands) stack, and the digit: as `kinds.sudoku.nine.find_fewest_matchings`."""
    side = box_rows * box_columns
    n = np.uint64(side)
    row_mask = (U1 << n) - U1
    best_total, best_place, best_digit = _MANY, 0, 0
    for place in range(box_columns + box_rows):
        total, fewest, at_digit = 0, _MANY, 0
        for digit in range(side):
            if place < box_columns:
                cells = state[digit * box_columns + place]
                matchings = np.int64(row_matchings[_row_pairs(cells, shrink, row_mask, n, box_rows)])
            else:
                pairs = _column_pairs(state, digit, place - box_columns, box_rows, box_columns)
                matchings = np.int64(column_matchings[pairs])
            if matchings > 1:
                total += matchings
                if matchings < fewest:
                    fewest, at_digit = matchings, digit
        if 0 < total < best_total:
            best_total, best_place, best_digit = total, place, at_digit
    return best_place, best_digit


@inner_kernel
def choose_pair(
    state: NDArray[np.uint64],
    shrink: NDArray[np.uint8],
    row_matchings: NDArray[np.uint8],
    column_matchings: NDArray[np.uint8],
    box_rows: int,
    box_columns: int,
) -> tuple[int, np.uint64, np.uint64]:
    """Return a pair to assume: in the band or stack with the fewest matchings left, of the digit with the fewest.

    The result is a word, the bits of the pair in it, and the bits of the unit that the pair would decide.
    """
    n = np.uint64(box_rows * box_columns)
    row_mask = (U1 << n) - U1
    stack_mask = (U1 << np.uint64(box_columns)) - U1
    if box_rows == 3 and box_columns == 3:
        place, digit = find_fewest_matchings(state)
    else:
        place, digit = _find_fewest_matchings(
            state, shrink, row_matchings, column_matchings, box_rows, box_columns
        )
    # the pair is the first in a line (a row, or a band) that has several pairs
    if place < box_columns:
        pairs = _row_pairs(state[digit * box_columns + place], shrink, row_mask, n, box_rows)
        line = np.uint64(0)
        lines_mask = (U1 << np.uint64(box_rows)) - U1
        while True:
            in_line = (pairs >> (line * np.uint64(box_rows))) & lines_mask
            if in_line & (in_line - U1) != U0:
                break
            line += U1
        box = lowest_bit(in_line)
        cells = stack_mask << (line * n + box * np.uint64(box_columns))
        return digit * box_columns + place, cells, row_mask << (line * n)
    pairs = _column_pairs(state, digit, place - box_columns, box_rows, box_columns)
    line = np.uint64(0)
    shift = np.uint64((place - box_columns) * box_columns)
    while True:
        in_line = (pairs >> (line * np.uint64(box_columns))) & stack_mask
        if in_line & (in_line - U1) != U0:
            break
        line += U1
    column = lowest_bit(in_line)
    cells, box_cells = U0, U0
    for row in range(box_rows):
        cells |= U1 << (np.uint64(row) * n + shift + column)
        box_cells |= stack_mask << (np.uint64(row) * n + shift)
    return digit * box_columns + np.int64(line), cells, box_cells


FOUND, GUESSES, HIT = 0, 1, 2
FIRST_CELL, RANDOM_CELL, PAIR = 0, 1, 2


@inner_kernel
def search(
    stack: NDArray[np.uint64],
    dirty: np.uint64,
    shrink: NDArray[np.uint8],
    row_cells: NDArray[np.uint64],
    column_pairs: NDArray[np.uint16],
    row_matchings: NDArray[np.uint8],
    column_matchings: NDArray[np.uint8],
    scratch: NDArray[np.uint64],
    box_rows: int,
    box_columns: int,
    limit: int,
    node_limit: int,
    branching: int,
    stream: NDArray[np.uint64],
    first: NDArray[np.uint64],
    info: NDArray[np.int64],
) -> None:
    """Depth-first search from stack[0], whose digits in `dirty` are not yet propagated.

    At a node one candidate is assumed (a guess). Afterwards the same candidate is excluded and the rest of the node is
    searched, which is not a guess. `first` receives the first solution's candidate words; `info` receives the solutions
    found (at most `limit`), the guesses up to the last of them, and 1 if `node_limit` ended the search.
    `branching`: FIRST_CELL and RANDOM_CELL assume a digit in a cell with the fewest candidates, PAIR (for C
    up to 4, otherwise as FIRST_CELL) a (row, box) or (band, column) pair. PAIR needs the fewest guesses on
    puzzles with one solution, and ratings use it; with many blanks it may thrash.
    """
    side = box_rows * box_columns
    bands = box_columns
    words = side * bands
    info[FOUND], info[GUESSES], info[HIT] = 0, 0, 0
    depth, to, word = np.int64(0), np.int64(0), np.int64(0)  # a literal 0 would compile `propagate` twice
    kept, assumed = ~U0, U0
    while True:
        alive = propagate(
            stack, depth, to, word, kept, dirty, shrink, row_cells, column_pairs, scratch, box_rows, box_columns,
        )  # fmt: skip
        if to != depth and not alive:  # exclude the failed assumption
            to, kept = depth, ~assumed
            continue
        if to != depth:  # exclude it at this depth too, for backtracking
            stack[depth, word] &= ~assumed
            depth = to
        if alive:
            state = stack[depth]
            if is_solved(state, box_rows, box_columns):
                if info[FOUND] == 0:
                    for i in range(words):
                        first[i] = state[i]
                info[FOUND] += 1
                if info[FOUND] >= limit:
                    return
                alive = False
            else:
                if node_limit > 0 and info[GUESSES] >= node_limit:
                    info[HIT] = 1
                    return
                info[GUESSES] += 1
                if branching == PAIR and column_matchings.shape[0] > 1:
                    word, assumed, unit = choose_pair(
                        state, shrink, row_matchings, column_matchings, box_rows, box_columns
                    )
                else:
                    # the first `bands` words of scratch are the cells to choose from
                    find_fewest(state, scratch, scratch[2 * bands :], side, bands)
                    if branching == RANDOM_CELL:
                        word, assumed, unit = choose_cell(state, scratch, side, bands, stream)
                    else:
                        word, assumed, unit = choose_first(state, scratch, side, bands)
                dirty = U1 << np.uint64(word // bands)
                state[words + bands] = dirty
                to, kept = depth + 1, assumed | ~unit
        if not alive:
            depth -= 1
            if depth < 0:
                return
            to, kept = depth, ~U0
            dirty = stack[depth, words + bands]


@inner_kernel
def store_solution(
    words: NDArray[np.uint64], grid: NDArray[np.uint8], box_rows: int, box_columns: int
) -> None:
    """Write the digits of a solved state's candidate words into a flat grid."""
    side = box_rows * box_columns
    for digit in range(side):
        for band in range(box_columns):
            cells = words[digit * box_columns + band]
            while cells != U0:
                grid[band * box_rows * side + np.int64(lowest_bit(cells))] = digit + 1
                cells &= cells - U1


@kernel
def solve_many(
    puzzles: NDArray[np.uint8],
    shrink: NDArray[np.uint8],
    row_cells: NDArray[np.uint64],
    column_pairs: NDArray[np.uint16],
    row_matchings: NDArray[np.uint8],
    column_matchings: NDArray[np.uint8],
    box_rows: int,
    box_columns: int,
    limit: int,
    node_limit: int,
    branching: int,
    solutions: NDArray[np.uint8],
    infos: NDArray[np.int64],
) -> None:
    """Solve each row of `puzzles` [N, S]; fill solutions [N, S] and infos [N, 3] (as `search`)."""
    side = box_rows * box_columns
    bands = box_columns
    stack = np.empty((side * side + 1, side * bands + bands + 1), np.uint64)
    scratch = np.empty(bands * (PLANES + 2), np.uint64)
    first = np.empty(side * bands, np.uint64)
    stream = np.empty(1, np.uint64)
    all_digits = (U1 << np.uint64(side)) - U1
    for i in range(puzzles.shape[0]):
        load_clues(stack[0], puzzles[i], box_rows, box_columns)
        search(
            stack, all_digits, shrink, row_cells, column_pairs, row_matchings, column_matchings, scratch,
            box_rows, box_columns, limit, node_limit, branching, stream, first, infos[i],
        )  # fmt: skip
        if infos[i, FOUND] > 0:
            store_solution(first, solutions[i], box_rows, box_columns)
