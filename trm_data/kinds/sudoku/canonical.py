"""Canonical forms of Sudoku puzzles: two forms are equal if and only if a symmetry maps the puzzles to each other.

Input: puzzles with their only solutions, uint8 [N, S]. Output: `Canonical`, and hashes for the catalog.
Neighbours: `kinds.sudoku.canonical_kernels` has the algorithm; `kinds.sudoku.choose` keeps splits disjoint by
these hashes, `verify` checks them. The group is that of `kinds.sudoku.symmetry`.

A form is an image of the puzzle under the group, chosen by a rule that gives the same form for every image. It is
not the smallest image in reading order.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trm_data.kinds.sudoku.symmetry import check_grids


@dataclass(frozen=True)
class Canonical:
    """Canonical forms, one for each puzzle."""

    forms: NDArray[np.uint8]
    """Canonical forms, uint8 [N, S]."""
    automorphisms: NDArray[np.int64]
    """Number of group elements that map the puzzle to itself, int64 [N], at least 1."""


def canonicalize(
    puzzles: NDArray[np.uint8], solutions: NDArray[np.uint8], box_rows: int, box_columns: int
) -> Canonical:
    """Return the canonical form of each puzzle under transposition, line and digit permutations.

    Args:
        puzzles: [N, S]; each has exactly one solution, otherwise forms of equivalent puzzles may differ.
        solutions: [N, S], that solution.
        box_rows: R.
        box_columns: C.
    """
    from trm_data.kinds.sudoku import canonical_kernels as sudoku_kernels  # imports numba

    puzzles = check_grids("puzzles", puzzles, box_rows, box_columns)
    solutions = check_grids("solutions", solutions, box_rows, box_columns)
    if puzzles.shape != solutions.shape:
        raise ValueError(f"got {len(puzzles)} puzzles and {len(solutions)} solutions: not the same")
    wrong = (solutions == 0) | ((puzzles != 0) & (puzzles != solutions))
    if wrong.any():
        raise ValueError(f"solutions: row {int(wrong.any(axis=1).argmax())} is not a solution of its puzzle")
    forms = np.empty_like(puzzles)
    automorphisms = np.empty(len(puzzles), np.int64)
    sudoku_kernels.canonicalize_many(puzzles, solutions, box_rows, box_columns, forms, automorphisms)
    return Canonical(forms=forms, automorphisms=automorphisms)


def canonical_hashes(forms: NDArray[np.uint8], box_rows: int, box_columns: int) -> list[str]:
    """Return a name for each form: blake2b of 16 bytes over R, C and the form's bytes, in hexadecimal."""
    forms = check_grids("forms", forms, box_rows, box_columns)
    start = hashlib.blake2b(bytes((box_rows, box_columns)), digest_size=16)
    names: list[str] = []
    for form in forms:
        state = start.copy()
        state.update(form.tobytes())
        names.append(state.hexdigest())
    return names
