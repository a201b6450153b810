"""Read Sudoku puzzles from files of every format that `sources.forms` supports.

Input: an open `LocalSource`. Output: `StatedRows` with the valid rows, and a `Reject` for each invalid row.
`trm_data.kinds.sudoku` checks whether a puzzle has one solution that matches its answer, only for the rows that
a dataset needs.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import SourceError
from trm_data.kinds.sudoku.encode import (
    BLANKS,
    cell_values,
    check_digits,
    choose_digits,
    decode_grid,
    digit_alphabet,
)
from trm_data.records import Reject
from trm_data.show.progress import Progress
from trm_data.sources.base import LocalSource
from trm_data.sources.columns import flat_cells, is_json
from trm_data.sources.forms import Board, read_puzzle_rows
from trm_data.sources.rows import Decoder, StatedRows, TextRow, read_rows

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
    if not is_json(text):
        if len(text) != side * side and SCIENTIFIC.fullmatch(stated):
            raise ValueError(
                f"{stated!r} is a number that a spreadsheet has rounded: export the column as text"
            )
        if len(text) != side * side and stated.isdecimal() and len(stated) < side * side < len(stated) + side:
            expected = f"expected {side * side} characters, got {len(stated)}"
            raise ValueError(
                f"{expected}; a spreadsheet drops zeros at the beginning: export the column as text"
            )
        if len(text) != side * side and (box := USUAL_BOXES.get(len(text))):
            expected = f"expected {side * side} characters, got {len(text)}"
            raise ValueError(f"{expected}, as many as a grid of {box} boxes has (--box {box})")
        return decode_grid(text, side, digits)
    return decode_numbers(text, side)


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
