"""Mazes as text: one character for each cell, row by row; `#` wall, space free, `S` start, `G` goal, `o` path.

`decode_maze` and `encode_maze` are inverses; the tokens are those of `encode.vocab`.
Neighbours: `kinds.maze.source` reads text with them; `solve`, `generate` and `canonical` check sizes with this module.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from trm_data.encode.vocab import MAZE_GOAL, MAZE_PATH, MAZE_START, MAZE_VOCABULARY_SIZE, MAZE_WALL

CELLS = "# SGo"
"""Default characters of the tokens, from `MAZE_WALL` on."""
NAMES = ("wall", "free", "start", "goal", "path")
MIN_SIDE = 3
MAX_SIDE = 64
_OTHER = 255


def check_maze_size(rows: int, columns: int) -> None:
    """Raise a ValueError unless both sides are 3 to 64."""
    if not (MIN_SIDE <= rows <= MAX_SIDE and MIN_SIDE <= columns <= MAX_SIDE):
        raise ValueError(
            f"maze of {rows}x{columns} cells: expected {MIN_SIDE} to {MAX_SIDE} rows and columns"
        )


def check_tokens(name: str, tokens: NDArray[np.uint8], rows: int, columns: int) -> NDArray[np.uint8]:
    """Check tokens [N, S] of mazes; return them contiguous."""
    check_maze_size(rows, columns)
    if tokens.ndim != 2 or tokens.shape[1] != rows * columns or tokens.dtype != np.uint8:
        raise ValueError(
            f"{name}: got {tokens.dtype}{list(tokens.shape)}, expected uint8 [N, {rows * columns}] for {rows}x{columns}"
        )
    if tokens.size and not (int(tokens.min()) >= MAZE_WALL and int(tokens.max()) < MAZE_VOCABULARY_SIZE):
        raise ValueError(
            f"{name}: got tokens {tokens.min()} to {tokens.max()}; expected {MAZE_WALL} to {MAZE_PATH}"
        )
    return np.ascontiguousarray(tokens)


def check_inputs(inputs: NDArray[np.uint8], rows: int, columns: int) -> NDArray[np.uint8]:
    """Check that inputs [N, S] have one start, one goal and no path; return them contiguous."""
    inputs = check_tokens("inputs", inputs, rows, columns)
    for token, name, expected in ((MAZE_START, "S", 1), (MAZE_GOAL, "G", 1), (MAZE_PATH, "o", 0)):
        counts = np.count_nonzero(inputs == token, axis=1)
        if (counts != expected).any():
            row = int(np.argmax(counts != expected))
            raise ValueError(f"inputs: row {row} has {counts[row]} cells {name!r}, expected {expected}")
    return inputs


def encode_maze(tokens: NDArray[np.uint8]) -> str:
    """Return tokens [S] as text."""
    return "".join(CELLS[token - MAZE_WALL] for token in tokens.tolist())


def check_cells(cells: str) -> str:
    """Check the user's cell characters: wall, free, start, goal and, if answers are given, path."""
    if len(cells) not in (len(CELLS) - 1, len(CELLS)) or len(set(cells)) != len(cells):
        raise ValueError(
            f"{cells!r} has {len(cells)} characters; expected those of wall, free, start, goal and path, all different "
            f"(usual: {CELLS!r})"
        )
    return cells


def decode_maze(text: str, rows: int, columns: int, cells: str = "") -> NDArray[np.uint8]:
    """Decode one line of text to tokens, uint8 [S].

    Args:
        text: One character for each cell.
        rows: R.
        columns: C.
        cells: Characters of wall, free, start, goal and path; default: `CELLS`.
    """
    if len(text) != rows * columns:
        side = math.isqrt(len(text))
        square = (
            f" (--grid {side}x{side} reads mazes of this size)" if side >= 3 and side**2 == len(text) else ""
        )
        raise ValueError(f"expected {rows * columns} characters, got {len(text)}{square}")
    values = np.frombuffer(text.translate(cell_tokens(cells or CELLS)).encode("latin-1"), dtype=np.uint8)
    if values.max() == _OTHER:
        position = int(np.argmax(values == _OTHER))
        raise ValueError(
            f"character {text[position]!r} at position {position + 1}: expected "
            + ", ".join(f"{mark!r} ({name})" for mark, name in zip(cells or CELLS, NAMES, strict=False))
        )
    return values


class _CellTokens(dict[int, int]):
    """A translation table that maps the characters of cells to tokens, all others to 255."""

    def __init__(self, cells: str) -> None:
        super().__init__({ord(c): token for token, c in enumerate(cells, start=MAZE_WALL)})

    def __missing__(self, key: int) -> int:
        return _OTHER


cell_tokens = cache(_CellTokens)
