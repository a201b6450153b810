"""The look-up tables of the Sudoku solver, one set for each box shape, built in numpy when first needed.

Input: box sizes R <= C. Output: arrays for the kernels.
Neighbours: `solve.propagation` and `solve.branching` say how they are used.
"""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_WIDEST_TABLE = 4


class Tables(NamedTuple):
    """Look-up tables for boxes of R rows by C columns, n = R * C.

    shrink: uint8[2**n], the set of boxes that a row of n cells occupies (R bits).
    row_cells: uint64[2**(R*R)], for a set of (row, box) pairs the cells of those that are in a perfect
        matching of rows to boxes; 0 if there is none.
    column_pairs: uint16[2**(C*C)], for a set of (band, column) pairs those in a perfect matching, 0 if there
        is none; uint16[1] for C above 4, where it would not fit.
    row_matchings: uint8[2**(R*R)], how many perfect matchings a set of (row, box) pairs contains.
    column_matchings: uint8[2**(C*C)], likewise for (band, column) pairs; uint8[1] for C above 4.
    """

    shrink: NDArray[np.uint8]
    row_cells: NDArray[np.uint64]
    column_pairs: NDArray[np.uint16]
    row_matchings: NDArray[np.uint8]
    column_matchings: NDArray[np.uint8]


@functools.cache
def make_tables(box_rows: int, box_columns: int) -> Tables:
    """Return the tables for boxes of R <= C; they are shared, so read-only."""
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
    """For each set of pairs (bit size * i + j): the pairs in perfect matchings, and how many there are."""
    pairs = np.arange(1 << (size * size))
    matched = np.zeros_like(pairs)
    matchings = np.zeros(len(pairs), np.uint8)
    for order in itertools.permutations(range(size)):
        matching = sum(1 << (size * i + j) for i, j in enumerate(order))
        contained = pairs & matching == matching
        matched |= np.where(contained, matching, 0)
        matchings += contained
    return matched, matchings
