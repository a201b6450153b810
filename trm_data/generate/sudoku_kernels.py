"""The Sudoku generator's compiled core: a random full grid, then clues removed in random order.

Input: seed, stream and the range of puzzle numbers. Output: puzzles and solutions, written in place.
Neighbours: wrapped by `generate.sudoku`; searches with `solve.sudoku_kernels`.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false
# (numba decides the types of kernels; their annotations are for readers)
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.kernel import kernel
from trm_data.seeds.draws import Purpose
from trm_data.seeds.kernels import STREAM_WORDS, U1, open_stream, shuffle
from trm_data.solve.branching import PLANES
from trm_data.solve.propagation import load_clues
from trm_data.solve.sudoku_kernels import FIRST_CELL, FOUND, HIT, RANDOM_CELL, search, store_solution

_GENERATE = int(Purpose.GENERATE)
_FILL_GUESSES = 1000


@kernel
def _start_grid(
    grid: NDArray[np.uint8],
    digits: NDArray[np.int64],
    stream: NDArray[np.uint64],
    box_rows: int,
    box_columns: int,
) -> None:
    """Blank, but for random boxes on the diagonal: no two share a row, column or box, so any content fits."""
    side = box_rows * box_columns
    grid[:] = 0
    for box in range(box_rows):
        for i in range(side):
            digits[i] = i + 1
        shuffle(stream, digits)
        for i in range(side):
            row = box * box_rows + i // box_columns
            grid[row * side + box * box_columns + i % box_columns] = digits[i]


@kernel
def generate_many(
    seed: np.uint64,
    stream_number: np.uint64,
    start: int,
    shrink: NDArray[np.uint8],
    row_cells: NDArray[np.uint64],
    column_pairs: NDArray[np.uint16],
    row_matchings: NDArray[np.uint8],
    column_matchings: NDArray[np.uint8],
    box_rows: int,
    box_columns: int,
    node_limit: int,
    puzzles: NDArray[np.uint8],
    solutions: NDArray[np.uint8],
) -> None:
    """Fill puzzles and solutions [N, S] with the puzzles numbered from `start`; boxes of R <= C.

    `node_limit` bounds each test of uniqueness: where it is reached, the clue stays.
    """
    side = box_rows * box_columns
    cells = side * side
    stack = np.empty((cells + 1, side * box_columns + box_columns + 1), np.uint64)
    scratch = np.empty(box_columns * (PLANES + 2), np.uint64)
    first = np.empty(side * box_columns, np.uint64)
    info = np.empty(3, np.int64)
    stream = np.empty(STREAM_WORDS, np.uint64)
    digits = np.empty(side, np.int64)
    order = np.empty(cells, np.int64)
    all_digits = (U1 << np.uint64(side)) - U1
    for i in range(puzzles.shape[0]):
        puzzle, solution = puzzles[i], solutions[i]
        open_stream(stream, seed, _GENERATE, start + i, stream_number)
        info[FOUND] = 0
        while info[FOUND] == 0:  # a search that runs long is given up and drawn anew
            _start_grid(solution, digits, stream, box_rows, box_columns)
            load_clues(stack[0], solution, box_rows, box_columns)
            search(
                stack, all_digits, shrink, row_cells, column_pairs, row_matchings, column_matchings, scratch,
                box_rows, box_columns, 1, _FILL_GUESSES, RANDOM_CELL, stream, first, info,
            )  # fmt: skip
        store_solution(first, solution, box_rows, box_columns)
        for cell in range(cells):
            order[cell] = cell
            puzzle[cell] = solution[cell]
        shuffle(stream, order)
        done, step = 0, cells // 2
        # Several clues are tried at once while that works: the outcome is that of one at a time, because
        # what is unique without all of them is unique without some of them.
        while done < cells:
            step = min(step, cells - done)
            for j in range(done, done + step):
                puzzle[order[j]] = 0
            load_clues(stack[0], puzzle, box_rows, box_columns)
            limit = 2
            if step == 1:  # unique if and only if no solution has another digit in the cell
                limit = 1
                cell = order[done]
                band, bit = cell // (box_rows * side), cell % (box_rows * side)
                stack[0, (solution[cell] - 1) * box_columns + band] &= ~(U1 << np.uint64(bit))
            search(
                stack, all_digits, shrink, row_cells, column_pairs, row_matchings, column_matchings, scratch,
                box_rows, box_columns, limit, node_limit, FIRST_CELL, stream, first, info,
            )  # fmt: skip
            if info[FOUND] < limit and info[HIT] == 0:
                done += step
                continue
            for j in range(done, done + step):
                puzzle[order[j]] = solution[order[j]]
            if step == 1:
                done += 1
            else:
                step = (step + 1) // 2 if step > 3 else 1
