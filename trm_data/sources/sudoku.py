"""Sudoku puzzles from files: the Sudoku-Extreme CSV columns, or one puzzle a line.

Input: an open `LocalSource`. Output: `PuzzleRows`, the rows whose form is right, and a `Reject` for each of
the others. Whether a puzzle has one solution and its answer fits is for `trm_data.kinds.sudoku`, which looks
only at the rows a dataset needs.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trm_data.encode.grid import BLANKS, decode_grid
from trm_data.errors import SourceError
from trm_data.records import Reject
from trm_data.sources.base import LocalSource

CSV_COLUMNS = ("source", "question", "answer", "rating")
REQUIRED_COLUMNS = ("question",)


@dataclass(frozen=True)
class PuzzleRows:
    """Rows of a source, N of S cells.

    Attributes:
        puzzles: Cell values, 0 blank, uint8 [N, S].
        answers: Cell values as stated, all 0 where none is, uint8 [N, S].
        ratings: As stated, NaN where none is, float32 [N].
        lines: Line in the file, from 1, int64 [N].
    """

    puzzles: NDArray[np.uint8]
    answers: NDArray[np.uint8]
    ratings: NDArray[np.float32]
    lines: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.puzzles)


@dataclass(frozen=True)
class _TextRow:
    line: int
    question: str
    answer: str = ""
    rating: str = ""


def read_puzzles(source: LocalSource, side: int) -> tuple[PuzzleRows, list[Reject]]:
    """All rows of a file.

    Args:
        source: A `csv` or `txt` source.
        side: Cells in a row of the grid.

    Returns:
        The rows whose form is right and no exact duplicate of an earlier one, and the others with the reason.

    Raises:
        SourceError: The file as a whole is no such source (no rows, a missing column, not text).
    """
    read = _read_csv if source.spec.kind == "csv" else _read_txt
    puzzles: list[NDArray[np.uint8]] = []
    answers: list[NDArray[np.uint8]] = []
    ratings: list[float] = []
    lines: list[int] = []
    rejects: list[Reject] = []
    seen: dict[bytes, int] = {}
    blank = np.zeros(side * side, np.uint8)
    with source.open_text() as text:
        try:
            for row in read(text, source.shown):
                try:
                    puzzle = decode_grid(row.question, side)
                    answer = _decode_answer(row.answer, side) if row.answer else blank
                    rating = _decode_rating(row.rating)
                except ValueError as error:
                    rejects.append(Reject(source.shown, row.line, str(error)))
                    continue
                first = seen.setdefault(puzzle.tobytes(), row.line)
                if first != row.line:
                    rejects.append(Reject(source.shown, row.line, f"the same puzzle as line {first}"))
                    continue
                puzzles.append(puzzle)
                answers.append(answer)
                ratings.append(rating)
                lines.append(row.line)
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{source.shown}: is not UTF-8 text ({error.reason} at byte {error.start})"
            ) from error
        except csv.Error as error:
            raise SourceError(f"{source.shown}: is not CSV ({error})") from error
    if not puzzles and not rejects:
        raise SourceError(f"{source.shown}: has no rows")
    shape = (-1, side * side)
    rows = PuzzleRows(
        np.array(puzzles, np.uint8).reshape(shape),
        np.array(answers, np.uint8).reshape(shape),
        np.array(ratings, np.float32),
        np.array(lines, np.int64),
    )
    return rows, rejects


def _read_csv(text: Iterator[str], shown: str) -> Iterator[_TextRow]:
    reader = csv.reader(text)
    header = next(reader, None)
    if header is None:
        raise SourceError(f"{shown}: the file is empty")
    columns = [name.strip() for name in header]
    missing = [name for name in REQUIRED_COLUMNS if name not in columns]
    if missing:
        raise SourceError(
            f"{shown}:1: has no column {missing[0]!r}; found {', '.join(columns)}; expected {', '.join(CSV_COLUMNS)}"
        )
    twice = [name for name in CSV_COLUMNS if columns.count(name) > 1]
    if twice:
        raise SourceError(f"{shown}:1: has the column {twice[0]!r} twice")
    at = {name: columns.index(name) for name in CSV_COLUMNS if name in columns}
    for fields in reader:
        if not fields:
            continue
        padded = [*fields, *[""] * (len(columns) - len(fields))]
        values = {name: padded[position].strip() for name, position in at.items()}
        yield _TextRow(
            reader.line_num, values["question"], values.get("answer", ""), values.get("rating", "")
        )


def _read_txt(text: Iterator[str], shown: str) -> Iterator[_TextRow]:
    for number, line in enumerate(text, start=1):
        content = line.split("#", 1)[0].strip()
        if content:
            yield _TextRow(number, content)


def _decode_answer(text: str, side: int) -> NDArray[np.uint8]:
    try:
        answer = decode_grid(text, side)
    except ValueError as error:
        raise ValueError(f"answer: {error}") from error
    if not answer.all():
        raise ValueError(
            f"answer: blank ({BLANKS[0]!r} or {BLANKS[1]!r}) at position {int(np.argmin(answer)) + 1}"
        )
    return answer


def _decode_rating(text: str) -> float:
    if not text:
        return math.nan
    try:
        rating = float(text)
    except ValueError:
        raise ValueError(f"rating {text!r}: expected a number of 0 or more") from None
    if not 0 <= rating < math.inf:
        raise ValueError(f"rating {text!r}: expected a number of 0 or more")
    return rating
