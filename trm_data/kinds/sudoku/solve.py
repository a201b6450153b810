"""Solve Sudoku grids of any supported box shape, count solutions, and rate difficulty.

Input: puzzles uint8 [N, S], 0 for blank. Output: `Solved`, or ratings float32 [N].
Neighbours: `kinds.sudoku.solve_kernels` has the algorithm; `kinds.sudoku` checks puzzles with `solve`
and stores `rate` in the catalog.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trm_data.kinds.sudoku.symmetry import SudokuSymmetry, check_grids, num_elements
from trm_data.seeds.draws import Purpose, bounded

RATE_IMAGES = 8
RATE_GUESSES = 10_000


@dataclass(frozen=True)
class Solved:
    """Search results, one entry for each puzzle."""

    solutions: NDArray[np.uint8]
    """First solution found, uint8 [N, S]; zeros if there is none."""
    counts: NDArray[np.int32]
    """Number of solutions found, int32 [N], at most `limit`."""
    guesses: NDArray[np.int64]
    """Number of candidates assumed until the search ended, int64 [N]."""


def solve(puzzles: NDArray[np.uint8], box_rows: int, box_columns: int, *, limit: int = 2) -> Solved:
    """Search each puzzle until `limit` solutions are found."""
    from trm_data.kinds.sudoku.solve_kernels import (
        FIRST_CELL,  # imports numba, which describing a solver does not need
    )

    return _search(puzzles, box_rows, box_columns, limit, 0, FIRST_CELL)


def rate(puzzles: NDArray[np.uint8], box_rows: int, box_columns: int) -> NDArray[np.float32]:
    """Return our difficulty rating of each puzzle, float32 [N]: the mean guess count over 8 fixed images.

    A guess is one candidate set that the depth-first search assumes on its way to the first solution; excluding it
    after a failure is not a guess. Propagation is that of `kinds.sudoku.propagation`. The guess:
    - of all bands and stacks, the one with the fewest matchings left in total (over its digits that have
      more than one), bands before stacks, upper and left ones first;
    - in it the digit with the fewest, the smallest first;
    - a matching says which box holds the digit in each row of the band (or which column in each band of the
      stack): the first row (band) that still has a choice takes its first box (column).
    Boxes with a side above 4 guess cells with the fewest candidates instead. A count ends at 10,000.

    The images are symmetries of the group, with indices drawn once for a box shape by (seed 0, RATE), so the rating
    hardly depends on the presentation of the puzzle. It is 0 exactly if propagation alone solves all images.
    It correlates with tdoku's guess count, which depends on one presentation.
    """
    from trm_data.kinds.sudoku.solve_kernels import PAIR  # imports numba

    puzzles = check_grids("puzzles", puzzles, box_rows, box_columns)
    indices = bounded(
        0, Purpose.RATE, box_rows, box_columns, num_elements(box_rows, box_columns), RATE_IMAGES
    )
    total = np.zeros(len(puzzles), np.int64)
    for index in indices:
        image = SudokuSymmetry.from_index(int(index), box_rows, box_columns).apply(puzzles)
        total += _search(image, box_rows, box_columns, 1, RATE_GUESSES, PAIR).guesses
    return (total / RATE_IMAGES).astype(np.float32)


def legal_grids(grids: NDArray[np.uint8], box_rows: int, box_columns: int) -> NDArray[np.bool_]:
    """Return which grids [N, S] have every digit in every row, column and box, bool [N]; cells may have any value."""
    side = box_rows * box_columns
    bits = np.zeros(256, np.uint16)
    bits[1 : side + 1] = 1 << np.arange(side)
    cells = bits[grids].reshape(-1, side, side)
    boxes = cells.reshape(-1, side // box_rows, box_rows, side // box_columns, box_columns)
    found = (
        np.bitwise_or.reduce(cells, axis=2),
        np.bitwise_or.reduce(cells, axis=1),
        np.bitwise_or.reduce(np.bitwise_or.reduce(boxes, axis=4), axis=2).reshape(-1, side),
    )
    return np.logical_and.reduce([(unit == (1 << side) - 1).all(axis=1) for unit in found])


def _search(
    puzzles: NDArray[np.uint8], box_rows: int, box_columns: int, limit: int, node_limit: int, branching: int
) -> Solved:
    """Search like `solve`, with a given branching rule, up to `node_limit` guesses (0: no limit)."""
    from trm_data.kinds.sudoku import solve_kernels as sudoku_kernels

    puzzles = check_grids("puzzles", puzzles, box_rows, box_columns)
    if limit < 1 or node_limit < 0:
        raise ValueError(f"limit, node_limit: got {limit}, {node_limit}; expected at least 1 and 0")
    side = box_rows * box_columns
    transposed = box_rows > box_columns  # the kernels need boxes at least as wide as high
    if transposed:
        puzzles = _transpose(puzzles, side)
        box_rows, box_columns = box_columns, box_rows
    solutions = np.zeros_like(puzzles)
    infos = np.empty((len(puzzles), 3), np.int64)
    tables = make_tables(box_rows, box_columns)
    sudoku_kernels.solve_many(
        puzzles, *tables, box_rows, box_columns, limit, node_limit, branching, solutions, infos
    )
    return Solved(
        solutions=_transpose(solutions, side) if transposed else solutions,
        counts=infos[:, sudoku_kernels.FOUND].astype(np.int32),
        guesses=infos[:, sudoku_kernels.GUESSES].copy(),
    )


def _transpose(grids: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Return the transposes of flat grids [N, S]."""
    return np.ascontiguousarray(grids.reshape(-1, side, side).transpose(0, 2, 1)).reshape(-1, side * side)


_WIDEST_TABLE = 4


class Tables(NamedTuple):
    """Look-up tables for boxes of R rows by C columns, n = R * C.

    shrink: uint8[2**n], the set of boxes that a row of n cells occupies (R bits).
    row_cells: uint64[2**(R*R)], for a set of (row, box) pairs the cells of those pairs that are in a perfect
        matching of rows to boxes; 0 if there is none.
    column_pairs: uint16[2**(C*C)], for a set of (band, column) pairs those in a perfect matching, 0 if there
        is none; uint16[1] for C above 4, where the table would be too large.
    row_matchings: uint8[2**(R*R)], number of perfect matchings in a set of (row, box) pairs.
    column_matchings: uint8[2**(C*C)], likewise for (band, column) pairs; uint8[1] for C above 4.
    """

    shrink: NDArray[np.uint8]
    row_cells: NDArray[np.uint64]
    column_pairs: NDArray[np.uint16]
    row_matchings: NDArray[np.uint8]
    column_matchings: NDArray[np.uint8]


@functools.cache
def make_tables(box_rows: int, box_columns: int) -> Tables:
    """Return the tables for boxes of R <= C; they are shared and read-only."""
    side = box_rows * box_columns
    row = np.arange(1 << side)
    shrink = np.zeros(1 << side, np.uint8)
    for box in range(box_rows):
        occupied = (row >> (box * box_columns)) & ((1 << box_columns) - 1) != 0
        shrink |= (occupied << box).astype(np.uint8)
    matched, row_matchings = _matched_pairs(box_rows)
    row_cells = np.zeros(len(matched), np.uint64)
    mini_row = (1 << box_columns) - 1
    for pair in range(box_rows * box_rows):
        at, box = divmod(pair, box_rows)
        cells = np.uint64(mini_row << (at * side + box * box_columns))
        row_cells |= np.where(matched >> pair & 1, cells, np.uint64(0))
    if box_columns <= _WIDEST_TABLE:
        pairs, column_matchings = _matched_pairs(box_columns)
        column_pairs = pairs.astype(np.uint16)
    else:
        column_pairs, column_matchings = np.zeros(1, np.uint16), np.zeros(1, np.uint8)
    tables = Tables(shrink, row_cells, column_pairs, row_matchings, column_matchings)
    for table in tables:
        table.flags.writeable = False
    return tables


def _matched_pairs(size: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return for each set of pairs (bit size * i + j) the pairs in perfect matchings, and the number of matchings."""
    pairs = np.arange(1 << (size * size))
    matched = np.zeros_like(pairs)
    matchings = np.zeros(len(pairs), np.uint8)
    for order in itertools.permutations(range(size)):
        matching = sum(1 << (size * i + j) for i, j in enumerate(order))
        contained = pairs & matching == matching
        matched |= np.where(contained, matching, 0)
        matchings += contained
    return matched, matchings
