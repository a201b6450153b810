"""Generate 9x9 Sudoku puzzles as hard as those of Sudoku-Extreme: `--difficulty extreme`.

Input: seed, stream, a range of puzzle numbers. Output: puzzles and solutions uint8 [N, 81].
Neighbours: `generate.hard_kernels` has the algorithm, `generate.sudoku` makes puzzles of no wanted rating;
the build splits a range over processes.

Puzzle i depends on (seed, stream, i) alone. For each a rating is drawn from `RATING_QUANTILES`, so that any
32 puzzles from a multiple of 32 on have one of each part of the distribution. A puzzle over a random grid of
its own is changed, clues added and others removed, until it is within a twentieth of that rating
(`solve.sudoku.rate`); the hardest are rarely reached, and are the nearest found. It has one solution and is
minimal at every step.

What the walk seeks is the rating over its 8 fixed images, so it also finds puzzles that are hard in these
images by chance: over other images their mean guess count is 13% lower (measured on 1,000).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trm_data.augment.sudoku import SudokuSymmetry, num_elements
from trm_data.seeds.draws import Purpose, bounded, check_word
from trm_data.solve.sudoku import RATE_GUESSES, RATE_IMAGES
from trm_data.solve.tables import make_tables

if TYPE_CHECKING:
    from trm_data.generate.hard_kernels import Images

# fmt: off
RATING_QUANTILES = (
    0, 0, 0, 0, 0, 8, 8, 15, 20, 36, 81, 91, 100, 108, 119, 128, 140,
    153, 168, 179, 192, 212, 232, 250, 273, 294, 322, 341, 364, 401, 451, 557, 1248,
)
# fmt: on
"""Quantiles 0, 1/32, ... 1 of 8 times `solve.sudoku.rate`: of 1,000 rows of Sudoku-Extreme's training set."""


def generate_hard(
    seed: int, stream: int, start: int, count: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return puzzles and solutions number `start` to `start + count - 1`, each uint8 [count, 81].

    Args:
        seed: Unsigned 64-bit.
        stream: Keeps series apart that share a seed, as training and test.
        start: First puzzle number.
        count: N.

    Raises:
        ValueError: A number that is not allowed.
    """
    puzzles, solutions, _ = generate_counted(seed, stream, start, count)
    return puzzles, solutions


def generate_counted(
    seed: int, stream: int, start: int, count: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64]]:
    """`generate_hard`, with the guesses of each puzzle over all images of `rate`, int64 [count]."""
    from trm_data.generate import hard_kernels  # imports numba

    if count < 0 or start < 0 or start + count > 1 << 62:
        raise ValueError(f"start, count: got {start}, {count}, allowed are numbers from 0 to 2**62")
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
    """The images that `solve.sudoku.rate` counts over."""
    from trm_data.generate.hard_kernels import Images

    indices = bounded(0, Purpose.RATE, 3, 3, num_elements(3, 3), RATE_IMAGES)
    symmetries = [SudokuSymmetry.from_index(int(index), 3, 3) for index in indices]
    square = np.arange(81).reshape(9, 9)
    cells = [(square.T if s.transpose else square)[np.ix_(s.rows, s.columns)].ravel() for s in symmetries]
    digits = [(0, *s.digits) for s in symmetries]
    return Images(np.array(cells), np.array(digits, np.uint8), RATE_GUESSES)
