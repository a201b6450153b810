"""Sudoku grids as text: one character a cell, `.` for a blank (`0`, `*` and `_` are read too), digits above 9 as
letters from `a`.

`decode_grid` and `encode_grid` are inverses. Neighbours: `sources` reads text with them, `describe` draws.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DIGITS = "123456789abcdefg"
BLANKS = ".0*_"
MAX_SIDE = len(DIGITS)


def digit_alphabet(side: int) -> str:
    """The characters that stand for 1..side."""
    return DIGITS[:side]


def encode_grid(values: NDArray[np.uint8]) -> str:
    """Text of cell values [S], 0 for a blank."""
    return "".join(DIGITS[v - 1] if v else "." for v in values.tolist())


def decode_grid(text: str, side: int) -> NDArray[np.uint8]:
    """Cell values, uint8 [side * side], of one line of text.

    Raises:
        ValueError: Wrong length, or a character that is no digit of this size; says which and where.
    """
    if len(text) != side * side:
        raise ValueError(f"expected {side * side} characters, got {len(text)}")
    translated = text.lower().translate(_TRANSLATION[side])
    values = np.frombuffer(translated.encode("latin-1", "replace"), dtype=np.uint8)
    if values.max() > side:
        position = int(np.argmax(values > side))
        allowed = f"{digit_alphabet(side)[0]} to {digit_alphabet(side)[-1]}, or one of {' '.join(BLANKS)} for a blank"
        raise ValueError(f"character {text[position]!r} at position {position + 1}: allowed are {allowed}")
    return values


class _CellValues(dict[int, int]):
    """A translation table that maps the characters of one grid size to values, all others to 255."""

    def __init__(self, side: int) -> None:
        super().__init__({ord(c): value for value, c in enumerate(digit_alphabet(side), start=1)})
        self.update({ord(c): 0 for c in BLANKS})

    def __missing__(self, key: int) -> int:
        return 255


_TRANSLATION = {side: _CellValues(side) for side in range(1, MAX_SIDE + 1)}
