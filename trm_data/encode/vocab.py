"""Tokens of the puzzle kinds. Token 0 is PAD everywhere and is ignored as a label.

Source: the TRM paper and its published code.
"""

from __future__ import annotations

PAD = 0
"""Padding at positions without a cell; ignored as a label."""

SUDOKU_BLANK = 1
"""A blank cell. A digit d is the token d + 1, so a cell value v is the token v + 1."""


def sudoku_vocabulary_size(side: int) -> int:
    """Return the number of tokens, with PAD, blank and the digits: 11 for 9x9."""
    return side + 2


MAZE_WALL = 1
"""A cell that cannot be entered: `#`."""
MAZE_FREE = 2
"""A cell that can be entered: a space."""
MAZE_START = 3
"""Start of the path: `S`."""
MAZE_GOAL = 4
"""End of the path: `G`."""
MAZE_PATH = 5
"""A free cell on the path: `o`; only in labels."""
MAZE_VOCABULARY_SIZE = 6
"""PAD and the five tokens of a maze."""
