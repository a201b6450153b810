"""Run each kernel of a Sudoku build once, to compile it or to load it before workers are forked."""

from __future__ import annotations

import numpy as np

from trm_data.kernel import without_unused
from trm_data.kinds.sudoku.generate import generate
from trm_data.kinds.sudoku.solve import rate, solve
from trm_data.kinds.sudoku.symmetry import SudokuAugmenter, canonicalize

_CELL = np.arange(81)
SOLUTION = ((3 * (_CELL // 9) + _CELL // 27 + _CELL % 9) % 9 + 1).astype(np.uint8)[None]
PUZZLE = np.where(_CELL == 0, 0, SOLUTION).astype(np.uint8)


def search(generated: bool) -> None:
    """Solve and rate a grid with one blank cell; generate a puzzle if builds generate theirs."""
    solve(PUZZLE, 3, 3, limit=2)
    rate(PUZZLE, 3, 3)
    if generated:
        generate(0, 0, 0, 1, 2, 2)


def write(generated: bool) -> None:
    """Canonicalise and augment the grid."""
    del generated
    canonicalize(PUZZLE, SOLUTION, 3, 3)
    one = np.zeros(1, np.int64)
    SudokuAugmenter(PUZZLE, SOLUTION, one, 0, 3, 3).fill(
        one, one, one, np.empty_like(PUZZLE), np.empty_like(PUZZLE)
    )


PARTS = (search, write)
"""Parts that share few kernels, so that processes compile them at the same time."""


def warm() -> None:
    """Run the kernels of every build."""
    with without_unused():
        for part in PARTS:
            part(generated=False)
