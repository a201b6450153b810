"""The Sudoku solver's compiled core: depth-first search.

Input: puzzles, and the tables of `kinds.sudoku.solve.make_tables` for their box shape. Output: solutions and guess
counts. Neighbours: `kinds.sudoku.propagation` and `kinds.sudoku.branching` have the two steps; wrapped by
`kinds.sudoku.solve`; `kinds.sudoku.generate_kernels` drives the same search.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false
# (numba infers the types of kernels; their annotations are for readers)
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.kernel import inner_kernel, kernel
from trm_data.kinds.sudoku.branching import (
    PLANES,
    choose_cell,
    choose_first,
    choose_pair,
    find_fewest,
    is_solved,
)
from trm_data.kinds.sudoku.propagation import load_clues, propagate
from trm_data.seeds.kernels import U0, U1, lowest_bit

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
