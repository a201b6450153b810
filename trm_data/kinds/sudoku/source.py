"""Sudoku grids as text, and puzzles read from files of every format that `sources.forms` supports.

A grid has one character for each cell, `.` for a blank (`0`, `*` and `_` are also read), digits above 9 as letters from
`a`. `decode_grid` and `encode_grid` are inverses; `choose_digits` detects files with other digits (0 to F, A to P).

`read_puzzles` returns `StatedRows` with the valid rows of an open `LocalSource`, and a `Reject` for each invalid row.
`trm_data.kinds.sudoku` checks whether a puzzle has one solution that matches its answer, only for the rows that
a dataset needs.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from functools import cache, partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import SourceError
from trm_data.records import Reject
from trm_data.show.progress import Progress
from trm_data.sources.base import LocalSource
from trm_data.sources.columns import flat_cells, is_json
from trm_data.sources.forms import Board, read_puzzle_rows
from trm_data.sources.rows import CellTable, Decoder, StatedRows, TextRow, read_rows

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


@cache
def cell_values(digits: str) -> CellTable:
    """Return the table from the characters of cells to their values, in both cases if that is unambiguous."""
    table = CellTable({ord(mark): 0 for mark in BLANKS})
    one_case = len(set(digits.lower())) == len(digits)
    for value, mark in enumerate(digits, start=1):
        marks = {mark, mark.lower(), mark.upper()} if one_case else {mark}
        table |= {ord(each): value for each in marks if len(each) == 1}
    return table


MARKS = "0123456789abcdefghijklmnop"
"""Characters of cells other than blanks."""
SCIENTIFIC = re.compile(r"\d[.,]?\d*[eE]\+?\d+")
USUAL_BOXES = {16: "2x2", 36: "2x3", 64: "2x4", 81: "3x3", 144: "3x4", 256: "4x4"}
"""Usual box of a grid, by its number of cells."""


def read_puzzles(
    source: LocalSource, side: int, *, distinct: bool = True, progress: Progress | None = None
) -> tuple[StatedRows, list[Reject]]:
    """Read all rows of a file.

    Args:
        source: A `csv`, `txt` or `table` source.
        side: Cells in a row of the grid.
        distinct: Reject exact duplicates.
        progress: Shows the number of rows read.

    Returns:
        The valid rows as cell values, 0 blank, without duplicates of earlier rows if `distinct`; and the rejected rows
        with the reason.
    """
    marks = source.spec.symbols.lower() or (MARKS[:10] if side < 10 else MARKS)
    read = partial(read_puzzle_rows, board=Board(side, side, frozenset(marks + BLANKS)))
    digits = _digits(source, read, side)

    def decode(row: TextRow) -> tuple[NDArray[np.uint8], NDArray[np.uint8] | None]:
        answer = row.answer.strip()
        question = _decode(row.question.strip(), side, digits)
        if question.all():
            raise ValueError(
                "has no blank cell: is it the solution of the puzzle before it? A solution follows its puzzle in the "
                "same line, or in a section [Solution]"
            )
        return question, _decode_answer(answer, side, digits) if answer else None

    decoder = Decoder(
        side * side,
        decode,
        cell_values(digits or digit_alphabet(side)),
        is_question=lambda cells: np.all(cells <= side, axis=1) & ~np.all(cells, axis=1),
        is_answer=lambda cells: np.all((cells > 0) & (cells <= side), axis=1),
    )
    return read_rows(source, read, decoder, "puzzle", distinct=distinct, progress=progress)


def _digits(source: LocalSource, read: Callable[[LocalSource], Iterator[TextRow]], side: int) -> str:
    """Return the characters of 1..side in a file, from its specification or detected from its rows."""
    try:
        if source.spec.symbols:
            return check_digits(source.spec.symbols, side)
        with closing(cast(Generator[TextRow], read(source))) as rows:
            return choose_digits(((plain(row.question, side), plain(row.answer, side)) for row in rows), side)
    except (UnicodeDecodeError, csv.Error):
        return ""  # reading the rows raises the error
    except ValueError as error:
        option = "--symbols " if source.spec.symbols else ""
        raise SourceError(f"{source.shown}: {option}{error}") from error


def plain(text: str, side: int) -> str:
    """Return a typed or drawn grid as one line, without spaces, line ends and ruled lines; a line stays unchanged."""
    text = text.strip()
    if len(text) == side * side or is_json(text):
        return text
    words = text.split()
    if len(words) == side * side and all(map(str.isdecimal, words)):
        return json.dumps([int(word) for word in words])
    return "".join(mark for mark in text if not mark.isspace() and mark not in "|+-!")


def _decode(text: str, side: int, digits: str) -> NDArray[np.uint8]:
    """Decode a grid from text, or from a JSON list of numbers with 0 for a blank."""
    stated, text = text, plain(text, side)
    if is_json(text):
        return decode_numbers(text, side)
    if len(text) != side * side:
        if SCIENTIFIC.fullmatch(stated):
            raise ValueError(
                f"{stated!r} is a number that a spreadsheet has rounded: export the column as text"
            )
        expected = f"expected {side * side} characters, got {len(text)}"
        if stated.isdecimal() and len(stated) < side * side < len(stated) + side:
            raise ValueError(
                f"{expected}; a spreadsheet drops zeros at the beginning: export the column as text"
            )
        if box := USUAL_BOXES.get(len(text)):
            raise ValueError(f"{expected}, as many as a grid of {box} boxes has (--box {box})")
    return decode_grid(text, side, digits)


def decode_numbers(text: str, side: int) -> NDArray[np.uint8]:
    """Decode a JSON list of numbers, with 0 for a blank, to cell values, uint8 [side * side]."""
    cells = flat_cells(text)
    if len(cells) != side * side:
        raise ValueError(f"expected {side * side} numbers, got {len(cells)}")
    for position, cell in enumerate(cells, start=1):
        if not 0 <= cell <= side:
            raise ValueError(f"number {cell} at position {position}: expected 1 to {side}, or 0 for a blank")
    return np.array(cells, np.uint8)


def _decode_answer(text: str, side: int, digits: str) -> NDArray[np.uint8]:
    try:
        answer = _decode(text, side, digits)
    except ValueError as error:
        raise ValueError(f"answer: {error}") from error
    if not answer.all():
        blanks = " ".join(mark for mark in BLANKS if mark not in digits)
        raise ValueError(f"answer: a blank (one of {blanks}) at position {int(np.argmin(answer)) + 1}")
    return answer
