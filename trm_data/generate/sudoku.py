"""Generate Sudoku puzzles with one solution.

Input: seed, stream, a range of puzzle numbers, box shape. Output: puzzles and solutions uint8 [N, S].
Neighbours: `generate.sudoku_kernels` has the algorithm; the build splits a range over processes: no state is
shared.

Puzzle i depends on (seed, stream, i) alone. A grid is filled by a search in random order from random
boxes on the diagonal; then the clues are removed in random order wherever the solution stays the only one.
Up to side 9 the puzzle is therefore minimal: without any one clue it has several solutions. Above, a test
of uniqueness may end at `NODE_LIMIT` guesses, and then the clue stays: one solution, not always minimal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.augment.sudoku_boxes import check_boxes
from trm_data.seeds.draws import check_word
from trm_data.solve.tables import make_tables

MINIMAL_SIDE = 9
NODE_LIMIT = 64


def generate(
    seed: int, stream: int, start: int, count: int, box_rows: int, box_columns: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return puzzles and solutions number `start` to `start + count - 1`, each uint8 [count, S].

    Args:
        seed: Unsigned 64-bit.
        stream: Keeps series apart that share a seed, as training and test.
        start: First puzzle number.
        count: N.
        box_rows: R.
        box_columns: C.

    Raises:
        ValueError: A number or box shape that is not allowed.
    """
    from trm_data.generate import sudoku_kernels  # imports numba

    side = check_boxes(box_rows, box_columns)
    if count < 0 or start < 0 or start + count > 1 << 62:
        raise ValueError(f"start, count: got {start}, {count}, allowed are numbers from 0 to 2**62")
    puzzles = np.empty((count, side * side), np.uint8)
    solutions = np.empty_like(puzzles)
    low, high = sorted((box_rows, box_columns))  # the kernels want boxes that are at least as wide as high
    sudoku_kernels.generate_many(
        np.uint64(check_word("seed", seed)), np.uint64(check_word("stream", stream)), start,
        *make_tables(low, high), low, high, 0 if side <= MINIMAL_SIDE else NODE_LIMIT, puzzles, solutions,
    )  # fmt: skip
    if box_rows > box_columns:
        puzzles, solutions = (
            np.ascontiguousarray(grids.reshape(-1, side, side).transpose(0, 2, 1)).reshape(-1, side * side)
            for grids in (puzzles, solutions)
        )
    return puzzles, solutions
