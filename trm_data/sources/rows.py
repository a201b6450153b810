"""Rows of a source that states a puzzle a line, in columns or as text, and their cells.

Input: an open `LocalSource` and what decodes a row's texts. Output: `StatedRows`, the rows whose form is
right, and a `Reject` for each of the others.
Neighbours: `sources.columns` finds the columns; `sources.sudoku` and `sources.maze` read their puzzles with it.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import SourceError
from trm_data.records import Reject
from trm_data.sources.base import LocalSource
from trm_data.sources.columns import (
    CSV_COLUMNS,
    EXCEL_SEPARATORS,
    SEPARATORS,
    find_columns,
    find_separator,
    looks_like_cells,
    no_column,
)


@dataclass(frozen=True)
class SourceRows:
    """Rows of a file as arrays of N: what the readers of each kind of puzzle return, and tasks get in parts."""

    def take(self, positions: NDArray[np.int64]) -> Self:
        """Those at `positions`."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return dataclasses.replace(
            self,
            **{name: value[positions] for name, value in values.items() if isinstance(value, np.ndarray)},
        )


@dataclass(frozen=True)
class TextRow:
    """One row as it stands in the file: spaces may be cells."""

    line: int
    question: str
    answer: str = ""
    rating: str = ""
    problem: str = ""
    """Why it is no row, where that is known before its cells are read."""


@dataclass(frozen=True)
class StatedRows:
    """Rows of a source, N of S cells.

    Attributes:
        questions: Cells, uint8 [N, S].
        answers: Cells as stated, all 0 where none is, uint8 [N, S].
        ratings: As stated, NaN where none is, float32 [N].
        lines: Line in the file, from 1, int64 [N].
    """

    questions: NDArray[np.uint8]
    answers: NDArray[np.uint8]
    ratings: NDArray[np.float32]
    lines: NDArray[np.int64]


def read_rows(
    source: LocalSource,
    read: Callable[[LocalSource], Iterator[TextRow]],
    decode: Callable[[TextRow], tuple[NDArray[np.uint8], NDArray[np.uint8] | None]],
    cells: int,
    noun: str,
    *,
    distinct: bool = True,
) -> tuple[StatedRows, list[Reject]]:
    """All rows of a file.

    Args:
        source: A source that is a file.
        read: Makes the rows of the file.
        decode: Makes cells [S] of a question and its answer, or None; a ValueError rejects the row.
        cells: S.
        noun: What a question is, in messages.
        distinct: Refuse exact duplicates.

    Returns:
        The rows whose form is right and, if distinct, no duplicate of an earlier one, and the others with the reason.

    Raises:
        SourceError: The file as a whole is no such source (no rows, a missing column, not text).
    """
    questions: list[NDArray[np.uint8]] = []
    answers: list[NDArray[np.uint8]] = []
    ratings: list[float] = []
    lines: list[int] = []
    rejects: list[Reject] = []
    seen: dict[bytes, int] = {}
    not_stated = np.zeros(cells, np.uint8)
    try:
        for row in read(source):
            try:
                if row.problem:
                    raise ValueError(row.problem)
                question, answer = decode(row)
                rating = _decode_rating(row.rating.strip())
            except ValueError as error:
                rejects.append(Reject(source.shown, row.line, str(error)))
                continue
            first = seen.setdefault(question.tobytes(), row.line)
            if distinct and first != row.line:
                rejects.append(Reject(source.shown, row.line, f"the same {noun} as line {first}"))
                continue
            questions.append(question)
            answers.append(not_stated if answer is None else answer)
            ratings.append(rating)
            lines.append(row.line)
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{source.shown}: is not UTF-8 text ({error.reason} at byte {error.start})"
        ) from error
    except csv.Error as error:
        raise SourceError(f"{source.shown}: is not CSV ({error})") from error
    if not questions and not rejects:
        raise SourceError(f"{source.shown}: has no rows")
    rows = StatedRows(
        np.array(questions, np.uint8).reshape(-1, cells),
        np.array(answers, np.uint8).reshape(-1, cells),
        np.array(ratings, np.float32),
        np.array(lines, np.int64),
    )
    return rows, rejects


def read_csv(text: Iterator[str], shown: str, named: Mapping[str, str] | None = None) -> Iterator[TextRow]:
    """Rows of a CSV file with a header; columns may stand in any order, others are passed over.

    Names are those of `COLUMN_NAMES`, in any case, or as `named`; what separates columns is what makes them so.

    Raises:
        SourceError: No header, a required column is missing, or one stands there twice.
    """
    first = next(text, None)
    if (
        first is not None and first.strip().lower() in EXCEL_SEPARATORS
    ):  # which Excel writes before the header
        first = next(text, None)
    if first is None:
        raise SourceError(f"{shown}: the file is empty")
    separator = find_separator(first, named) or SEPARATORS[0]
    columns = [name.strip() for name in next(csv.reader([first], delimiter=separator), [])]
    at = find_columns(columns, named, shown)
    for column, name in (named or {}).items():
        if column not in at:
            raise SourceError(f"{shown}:1: {no_column(name, columns)}")
    if "question" not in at and looks_like_cells(columns):
        raise SourceError(
            f"{shown}:1: is a puzzle, expected the names of the columns; put a line before it, as question,answer"
        )
    if "question" not in at:
        raise SourceError(
            f"{shown}:1: has no column 'question'; found {', '.join(columns)}; expected {', '.join(CSV_COLUMNS)} "
            "(--columns question=NAME,answer=NAME names others)"
        )
    reader = csv.reader(itertools.chain([first], text), delimiter=separator)
    next(reader)
    for fields in reader:
        if not fields:
            continue
        padded = [*fields, *[""] * (len(columns) - len(fields))]
        values = {name: padded[position] for name, position in at.items()}
        question, answer = (values.get(name, "").removeprefix("'") for name in ("question", "answer"))
        yield TextRow(reader.line_num, question, answer, values.get("rating", ""))


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
