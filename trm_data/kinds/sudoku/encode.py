"""Sudoku grids as text: one character a cell, `.` for a blank (`0`, `*` and `_` are read too), digits above 9 as
letters from `a`.

`decode_grid` and `encode_grid` are inverses; `choose_digits` finds out whether a file writes its digits otherwise (0 to
F, A to P). Neighbours: `sources` reads text with them, `describe` draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray

DIGITS = "123456789abcdefg"
FROM_ZERO = "0123456789abcdef"
LETTERS = "abcdefghijklmnop"
BLANKS = ".0*_"
MAX_SIDE = len(DIGITS)
MOST_COMPARED = 1_000
"""Grids that are looked at for a 0 that occurs twice in a row or a column."""


def digit_alphabet(side: int) -> str:
    """The characters that stand for 1..side."""
    return DIGITS[:side]


def encode_grid(values: NDArray[np.uint8]) -> str:
    """Text of cell values [S], 0 for a blank."""
    return "".join(DIGITS[v - 1] if v else "." for v in values.tolist())


def decode_grid(text: str, side: int, digits: str = "") -> NDArray[np.uint8]:
    """Cell values, uint8 [side * side], of one line of text.

    Args:
        text: A character a cell.
        side: Cells in a row.
        digits: The characters of 1..side, where they are others than usual. Other `BLANKS` stay blanks.
    """
    if len(text) != side * side:
        raise ValueError(f"expected {side * side} characters, got {len(text)}")
    digits = digits or digit_alphabet(side)
    table = cell_values(digits)
    values = np.frombuffer(text.translate(table).encode("latin-1", "replace"), dtype=np.uint8)
    if values.max() > side:
        position = int(np.argmax(values > side))
        blanks = " ".join(mark for mark in BLANKS if mark not in digits)
        allowed = f"{digits[0]} to {digits[-1]}, or one of {blanks} for a blank"
        raise ValueError(f"character {text[position]!r} at position {position + 1}: expected {allowed}")
    return values


def check_digits(digits: str, side: int) -> str:
    """Digits as a person names them: a character for each of 1..side, none twice."""
    if len(digits) != side or len(set(digits)) != side or any(mark.isspace() for mark in digits):
        raise ValueError(
            f"{digits!r} has {len(digits)} characters; expected {side} different ones, which stand for 1 to {side} "
            f"(for example {FROM_ZERO[:side]})"
        )
    return digits


def choose_digits(grids: Iterable[tuple[str, str]], side: int) -> str:
    """The characters of 1..side in these puzzles and answers; empty where they are as usual.

    - Letters beyond those of the usual digits and no digit at all: A to P.
    - 0 beside another blank, and the top digit nowhere: 0 is a digit. With the top digit, 0 is a blank.

    As soon as a grid has the top digit and others, no more are looked at.
    """
    top, seen, zeros = digit_alphabet(side)[-1], set[str](), list[str]()
    for question, answer in grids:
        if len(question) == side * side:
            seen.update(question.lower())
            seen.update(answer.lower())
            if "0" in question and len(zeros) < MOST_COMPARED:
                zeros.append(question)
            if top in seen and not seen.isdisjoint(FROM_ZERO[1:10]):
                return ""
    letters = {mark for mark in seen if "a" <= mark <= "z"}
    if letters and seen.isdisjoint(FROM_ZERO[:10]) and letters <= set(LETTERS[:side]):
        return LETTERS[:side] if max(letters) > top or side <= 9 else ""
    if "0" not in seen or seen.isdisjoint(BLANKS.replace("0", "")) or top in seen:
        return ""
    if any(_repeated_zero(grid, side) for grid in zeros):
        raise ValueError(
            f"0 and another blank are in the puzzles: ambiguous: {top.upper()} does not occur, but 0 occurs twice "
            f"in a row or column. Name the characters of 1 to {side}: --symbols {digit_alphabet(side)} or "
            f"--symbols {FROM_ZERO[:side]}"
        )
    return FROM_ZERO[:side]


def _repeated_zero(grid: str, side: int) -> bool:
    zeros = (np.array(list(grid)) == "0").reshape(side, side)
    return bool((zeros.sum(axis=0) > 1).any() or (zeros.sum(axis=1) > 1).any())


class _CellValues(dict[int, int]):
    """A translation table that maps the characters of cells to values, all others to 255."""

    def __init__(self, digits: str) -> None:
        super().__init__({ord(mark): 0 for mark in BLANKS})
        one_case = len(set(digits.lower())) == len(digits)
        for value, mark in enumerate(digits, start=1):
            marks = {mark, mark.lower(), mark.upper()} if one_case else {mark}
            self.update({ord(each): value for each in marks if len(each) == 1})

    def __missing__(self, key: int) -> int:
        return 255


cell_values = cache(_CellValues)
