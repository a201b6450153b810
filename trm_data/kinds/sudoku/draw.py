"""A Sudoku as text: digits, `.` for blanks, lines between boxes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.encode.grid import DIGITS
from trm_data.encode.vocab import SUDOKU_BLANK


def draw_grid(tokens: NDArray[np.uint8], box_rows: int, box_columns: int) -> str:
    """Lines of text for a row of tokens [S]."""
    side = box_rows * box_columns
    bar = "+".join("-" * (2 * box_columns + 1) for _ in range(side // box_columns))
    lines: list[str] = []
    for row, cells in enumerate(tokens.reshape(side, side).tolist()):
        if row and row % box_rows == 0:
            lines.append(bar)
        boxes = (cells[start : start + box_columns] for start in range(0, side, box_columns))
        lines.append("|".join(f" {' '.join(map(_symbol, box))} " for box in boxes))
    return "\n".join(lines)


def _symbol(token: int) -> str:
    digit = token - SUDOKU_BLANK
    return DIGITS[digit - 1] if 1 <= digit <= len(DIGITS) else "."
