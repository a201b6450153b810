"""Generate Sudoku puzzles with one solution.

Input: seed, stream, a range of puzzle numbers, box shape. Output: puzzles and solutions uint8 [N, S].
Neighbours: `kinds.sudoku.generate_kernels` has the algorithm; the build divides a range among processes, which share no
state.

Puzzle i depends only on (seed, stream, i). A search in random order fills a grid that starts with random boxes on
the diagonal. Then clues are removed in random order if the solution stays unique.
Up to side 9 the puzzle is therefore minimal: without any one clue it has several solutions. Above, a test
of uniqueness may stop at `NODE_LIMIT` guesses, and then the clue stays: one solution, not always minimal.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trm_data.kinds.sudoku.solve import RATE_GUESSES, RATE_IMAGES, make_tables
from trm_data.kinds.sudoku.symmetry import SudokuSymmetry, check_boxes, num_elements
from trm_data.seeds.draws import Purpose, bounded, check_word

if TYPE_CHECKING:
    from trm_data.kinds.sudoku.generate_kernels import Images


MINIMAL_SIDE = 9
NODE_LIMIT = 64


def generate(
    seed: int, stream: int, start: int, count: int, box_rows: int, box_columns: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return puzzles and solutions with numbers `start` to `start + count - 1`, each uint8 [count, S].

    Args:
        seed: Unsigned 64-bit.
        stream: Separates series with the same seed, such as training and test.
        start: First puzzle number.
        count: N.
        box_rows: R.
        box_columns: C.
    """
    from trm_data.kinds.sudoku import generate_kernels as sudoku_kernels  # imports numba

    side = check_boxes(box_rows, box_columns)
    if count < 0 or start < 0 or start + count > 1 << 62:
        raise ValueError(f"start, count: got {start}, {count}; expected numbers from 0 to 2**62")
    puzzles = np.empty((count, side * side), np.uint8)
    solutions = np.empty_like(puzzles)
    low, high = sorted((box_rows, box_columns))  # the kernels need boxes at least as wide as high
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


# fmt: off
RATING_QUANTILES = (
    0, 0, 0, 0, 0, 8, 8, 15, 20, 36, 81, 91, 100, 108, 119, 128, 140,
    153, 168, 179, 192, 212, 232, 250, 273, 294, 322, 341, 364, 401, 451, 557, 1248,
)
# fmt: on
"""Quantiles 0, 1/32, ... 1 of 8 times `kinds.sudoku.solve.rate`, over 1,000 rows of Sudoku-Extreme's training set."""


def generate_hard(
    seed: int, stream: int, start: int, count: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]]:
    """Return puzzles and solutions with numbers `start` to `start + count - 1`, each uint8 [count, 81].

    Also return the guesses of each puzzle over all images of `rate`, int64 [count].

    Args:
        seed: Unsigned 64-bit.
        stream: Separates series with the same seed, such as training and test.
        start: First puzzle number.
        count: N.
    """
    from trm_data.kinds.sudoku import generate_kernels as hard_kernels  # imports numba

    if count < 0 or start < 0 or start + count > 1 << 62:
        raise ValueError(f"start, count: got {start}, {count}; expected numbers from 0 to 2**62")
    puzzles = np.empty((count, 81), np.uint8)
    solutions = np.empty_like(puzzles)
    guesses = np.empty(count, np.int64)
    hard_kernels.harden_many(
        np.uint64(check_word("seed", seed)), np.uint64(check_word("stream", stream)), start,
        np.array(RATING_QUANTILES), _make_images(), make_tables(3, 3), puzzles, solutions, guesses,
    )  # fmt: skip
    return puzzles, solutions, guesses


@functools.cache
def _make_images() -> Images:
    """Return the images over which `kinds.sudoku.solve.rate` counts guesses."""
    from trm_data.kinds.sudoku.generate_kernels import Images

    indices = bounded(0, Purpose.RATE, 3, 3, num_elements(3, 3), RATE_IMAGES)
    symmetries = [SudokuSymmetry.from_index(int(index), 3, 3) for index in indices]
    square = np.arange(81).reshape(9, 9)
    cells = [(square.T if s.transpose else square)[np.ix_(s.rows, s.columns)].ravel() for s in symmetries]
    digits = [(0, *s.digits) for s in symmetries]
    return Images(np.array(cells), np.array(digits, np.uint8), RATE_GUESSES)
