"""Tokens of the puzzle kinds. Token 0 is PAD everywhere and is ignored as a label.

Source: the TRM paper and its published code.
"""

from __future__ import annotations

PAD = 0
"""Fills what is no cell; ignored wherever it is a label."""

SUDOKU_BLANK = 1
"""A blank cell. A digit d is the token d + 1, so a cell value v is the token v + 1."""


def sudoku_vocabulary_size(side: int) -> int:
    """PAD, blank and the digits: 11 for 9x9."""
    return side + 2
