"""Sudoku grids as text: one character for each cell, `.` for a blank (`0`, `*` and `_` are also read), digits above 9
as letters from `a`.

`decode_grid` and `encode_grid` are inverses; `choose_digits` detects files with other digits (0 to F, A to P).
Neighbours: `sources` reads text with them, `describe` draws.
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
"""Maximum number of grids searched for a 0 that occurs twice in a row or a column."""


def digit_alphabet(side: int) -> str:
    """Return the characters of the values 1..side."""
    return DIGITS[:side]


def encode_grid(values: NDArray[np.uint8]) -> str:
    """Return cell values [S], 0 for a blank, as text."""
    return "".join(DIGITS[v - 1] if v else "." for v in values.tolist())


def decode_grid(text: str, side: int, digits: str = "") -> NDArray[np.uint8]:
    """Decode one line of text to cell values, uint8 [side * side].

    Args:
        text: One character for each cell.
        side: Cells in a row.
        digits: Characters of 1..side; default: the usual ones. Other `BLANKS` stay blanks.
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
    """Check the user's digits: a different character for each of 1..side."""
    if len(digits) != side or len(set(digits)) != side or any(mark.isspace() for mark in digits):
        raise ValueError(
            f"{digits!r} has {len(digits)} characters; expected {side} different ones, which stand for 1 to {side} "
            f"(for example {FROM_ZERO[:side]})"
        )
    return digits


def choose_digits(grids: Iterable[tuple[str, str]], side: int) -> str:
    """Return the characters of 1..side in these puzzles and answers; empty if they are the usual ones.

    - Letters beyond the usual digits and no decimal digit at all: A to P.
    - 0 and another blank, and no top digit: 0 is a digit. With the top digit, 0 is a blank.

    The search stops once the top digit and other digits have occurred.
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
