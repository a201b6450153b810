"""Run each kernel of a Sudoku build once; imported by the forkserver, from which workers are forked."""

from __future__ import annotations

import numpy as np

from trm_data.kernel import without_unused
from trm_data.kinds.sudoku.canonical import canonicalize
from trm_data.kinds.sudoku.solve import rate, solve
from trm_data.kinds.sudoku.symmetry import SudokuAugmenter


def warm() -> None:
    """Solve, rate, canonicalise and augment a grid with one blank cell."""
    cell = np.arange(81)
    row, column = cell // 9, cell % 9
    solution = ((3 * row + row // 3 + column) % 9 + 1).astype(np.uint8)[None]
    puzzle = solution.copy()
    puzzle[0, 0] = 0
    solve(puzzle, 3, 3, limit=2)
    rate(puzzle, 3, 3)
    canonicalize(puzzle, solution, 3, 3)
    one = np.zeros(1, np.int64)
    SudokuAugmenter(puzzle, solution, one, 0, 3, 3).fill(
        one, one, one, np.empty_like(puzzle), np.empty_like(puzzle)
    )


with without_unused():
    warm()
