"""The shape of a Sudoku: boxes of R rows by C columns make a grid of n = R * C digits, rows and columns.

Input: box sizes and arrays of grids. Output: the side n, or an error that says what is allowed.
Neighbours: everything that solves, generates, permutes or canonicalizes Sudoku starts here.
There are n / R = C bands (groups of R rows) and n / C = R stacks (groups of C columns).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAX_SIDE = 16


def check_boxes(box_rows: int, box_columns: int) -> int:
    """Return the side n of grids with these boxes.

    Raises:
        ValueError: A box side is below 2, or n is above 16.
    """
    if box_rows < 2 or box_columns < 2 or box_rows * box_columns > MAX_SIDE:
        raise ValueError(
            f"boxes: got {box_rows}x{box_columns}, allowed are sides of at least 2 with "
            f"rows * columns at most {MAX_SIDE}"
        )
    return box_rows * box_columns


def check_grids(name: str, grids: ArrayLike, box_rows: int, box_columns: int) -> NDArray[np.uint8]:
    """Return `grids` as a contiguous uint8 [N, S] array.

    Raises:
        ValueError: Another shape, a type that is not integer, or a value above n.
    """
    side = check_boxes(box_rows, box_columns)
    array = np.asarray(grids)
    if array.ndim != 2 or array.shape[1] != side * side:
        raise ValueError(f"{name}: got shape {array.shape}, allowed is [N, {side * side}]")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name}: got type {array.dtype}, allowed are integers")
    if array.size and (int(array.min()) < 0 or int(array.max()) > side):
        raise ValueError(f"{name}: got values {array.min()} to {array.max()}, allowed are 0 to {side}")
    return np.ascontiguousarray(array, dtype=np.uint8)
