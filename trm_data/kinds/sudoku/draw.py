"""A Sudoku as a drawing: digits, `.` for blanks, lines between boxes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.encode.grid import DIGITS
from trm_data.encode.vocab import SUDOKU_BLANK
from trm_data.show.drawing import Drawing

PALETTE = ("#ffffff", "#e8eef7")


def draw_grid(tokens: NDArray[np.uint8], box_rows: int, box_columns: int) -> Drawing:
    """A drawing of a row of tokens [S]; boxes are shaded in turn."""
    side = box_rows * box_columns
    symbols = tuple("".join(map(_symbol, cells)) for cells in tokens.reshape(side, side).tolist())
    i, j = np.indices((side, side))
    shaded = ((i // box_rows + j // box_columns) % 2).astype(np.uint8)
    return Drawing(symbols, shaded, PALETTE, (box_rows, box_columns), silent=" .")


def _symbol(token: int) -> str:
    digit = token - SUDOKU_BLANK
    return DIGITS[digit - 1] if 1 <= digit <= len(DIGITS) else "."
