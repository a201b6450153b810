"""Rows and cells of a source with one puzzle per row, in columns or as text.

Input: an open `LocalSource` and a decoder of a row's texts. Output: `StatedRows` with the valid rows, and a `Reject`
for each invalid row.
Neighbours: `sources.columns` finds the columns; `kinds.sudoku.source` and `kinds.maze.source` use this to read puzzles.
"""

from __future__ import annotations

import csv
import itertools
import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import SourceError
from trm_data.records import Reject
from trm_data.show.progress import NoProgress, Progress
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

ROWS_AT_ONCE = 4096
MOST_RATING, LEAST_RATING = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)
"""Bounds of the ratings above 0, which the catalog stores as float32."""
OTHER = 255
"""Marker for characters that are not a cell value."""
_HASH_FACTOR = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class SourceRows:
    """Rows of a file as arrays of N: the result of each kind's reader, and the input of tasks, in parts.

    Attributes:
        lines: Line of text or row of a table in the file, from 1, int64 [N].
    """

    lines: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, positions: NDArray[np.int64] | slice) -> Self:
        """Return the rows at `positions`."""
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, **{name: value[positions] for name, value in arrays.items()})


class TextRow(NamedTuple):
    """One row as written in the file: spaces may be cells."""

    line: int
    question: str
    answer: str = ""
    rating: str = ""
    problem: str = ""
    """Reason for rejecting the row, if it is known before the cells are read."""
    firm: bool = False
    """Whether a bad row cannot be skipped, because the rows after it may be shifted."""


class CellTable(dict[int, int]):
    """A translation table of the characters of cells to values; all others become `OTHER`."""

    def __missing__(self, key: int) -> int:
        return OTHER


@dataclass(frozen=True)
class Decoder:
    """Decodes texts to cells: most rows at once with a table, the others one by one.

    Attributes:
        cells: Number of cells S.
        one: Decodes one row to the cells [S] of question and answer (or None); a ValueError rejects the row.
        values: Value of each character; malformed rows must contain `OTHER`.
        is_question: Which of these cells [N, S] are questions, bool [N].
        is_answer: Which of these cells [N, S] are answers, bool [N].
    """

    cells: int
    one: Callable[[TextRow], tuple[NDArray[np.uint8], NDArray[np.uint8] | None]]
    values: Mapping[int, int]
    is_question: Callable[[NDArray[np.uint8]], NDArray[np.bool_]]
    is_answer: Callable[[NDArray[np.uint8]], NDArray[np.bool_]]

    @cached_property
    def _table(self) -> bytes:
        marks = [OTHER if mark == ord("[") else self.values[mark] for mark in range(128)]  # [: JSON
        return bytes(marks).ljust(256, bytes([OTHER]))

    def many(self, texts: Sequence[str]) -> NDArray[np.uint8]:
        """Return cells [N, S], all `OTHER` for texts of other lengths."""
        fits = np.array([len(text) == self.cells and text.isascii() for text in texts], np.bool_)
        joined = "".join(texts if fits.all() else itertools.compress(texts, fits.tolist()))
        found = np.frombuffer(joined.encode("ascii").translate(self._table), np.uint8)
        cells = np.full((len(texts), self.cells), OTHER, np.uint8)
        cells[fits] = found.reshape(-1, self.cells)
        return cells


@dataclass(frozen=True)
class StatedRows(SourceRows):
    """Rows of a source, N of S cells.

    Attributes:
        questions: Cells, uint8 [N, S].
        answers: Given cells, all 0 if there is no answer, uint8 [N, S].
        ratings: Given ratings, NaN if there is none, float32 [N].
    """

    questions: NDArray[np.uint8]
    answers: NDArray[np.uint8]
    ratings: NDArray[np.float32]


def read_rows(
    source: LocalSource,
    read: Callable[[LocalSource], Iterator[TextRow]],
    decoder: Decoder,
    noun: str,
    *,
    distinct: bool = True,
    progress: Progress | None = None,
) -> tuple[StatedRows, list[Reject]]:
    """Read all rows of a file. Memory holds the cells of all rows, and the texts of `ROWS_AT_ONCE`.

    Args:
        source: A source that is a file.
        read: Yields the rows of the file.
        decoder: Decodes their cells.
        noun: Word for a question in messages.
        distinct: Reject exact duplicates.
        progress: Shows the number of rows read.

    Returns:
        The valid rows, without duplicates of earlier rows if `distinct`; and the rejected rows with the reason.
    """
    progress = progress or NoProgress()
    progress.start(f"read {source.spec.name or source.shown}", None, "rows")
    questions, answers = bytearray(), bytearray()
    ratings, lines = array("f"), array("q")
    rejects: list[Reject] = []
    count = 0
    try:
        texts = read(source)
        while batch := list(itertools.islice(texts, ROWS_AT_ONCE)):
            good, problems = _decode(batch, decoder)
            questions += good.questions.tobytes()
            answers += good.answers.tobytes()
            ratings.frombytes(good.ratings.tobytes())
            lines.frombytes(good.lines.tobytes())
            for position, problem in problems.items():
                row = batch[position]
                if row.firm:
                    raise SourceError(
                        f"{source.shown}:{row.line}: {problem}. Put a blank line between the grids: without it, grids "
                        "after a bad one may be shifted, so none is skipped"
                    )
                rejects.append(Reject(source.shown, row.line, problem))
            count += len(batch)
            progress.advance(len(batch))
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{source.shown}: is not UTF-8 text ({error.reason} at byte {error.start})"
        ) from error
    except csv.Error as error:
        raise SourceError(f"{source.shown}: is not CSV ({error})") from error
    if not count:
        raise SourceError(f"{source.shown}: has no rows")
    found = StatedRows(
        np.frombuffer(lines, np.int64),
        np.frombuffer(questions, np.uint8).reshape(-1, decoder.cells),
        np.frombuffer(answers, np.uint8).reshape(-1, decoder.cells),
        np.frombuffer(ratings, np.float32),
    )
    repeated = _repeated(found) if distinct else {}
    for position, first in repeated.items():
        rejects.append(Reject(source.shown, lines[position], f"the same {noun} as line {first}"))
    return _without(found, repeated), sorted(rejects, key=lambda reject: reject.line)


def _decode(batch: list[TextRow], decoder: Decoder) -> tuple[StatedRows, dict[int, str]]:
    """Return the valid rows of a batch, and the problems of the others; rows of unusual form are decoded one by one."""
    lines, texts, answer_texts, rating_texts, known_problems, _ = zip(*batch, strict=True)
    questions, answers = decoder.many(texts), decoder.many(answer_texts)
    stated = np.array([bool(text) for text in answer_texts], np.bool_)
    good = decoder.is_question(questions) & (decoder.is_answer(answers) | ~stated)
    answers[~stated] = 0
    if any(known_problems):
        good &= [not problem for problem in known_problems]
    ratings = np.zeros(len(batch), np.float32)
    try:
        ratings[:] = [_decode_rating(text) for text in rating_texts]
    except ValueError:
        good[:] = False
    problems: dict[int, str] = {}
    for position in np.flatnonzero(~good).tolist():
        row = batch[position]
        try:
            if row.problem:
                raise ValueError(row.problem)
            questions[position], answer = decoder.one(row)
            answers[position] = 0 if answer is None else answer
            ratings[position] = _decode_rating(row.rating)
            good[position] = True
        except ValueError as error:
            problems[position] = str(error)
    rows = StatedRows(np.array(lines, np.int64), questions, answers, ratings)
    return rows.take(np.flatnonzero(good)), problems


def _repeated(rows: StatedRows) -> dict[int, int]:
    """Return positions of questions that also occur on an earlier line, with that line.

    Rows are compared only if their 64-bit hashes are equal.
    """
    weights = np.cumprod(np.full(rows.questions.shape[1], _HASH_FACTOR, np.uint64))
    hashes = np.empty(len(rows.questions), np.uint64)
    for start in range(0, len(hashes), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        hashes[part] = rows.questions[part].astype(np.uint64) @ weights
    order = np.argsort(hashes, kind="stable")
    equal = np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]])
    seen: dict[bytes, int] = {}
    repeated: dict[int, int] = {}
    for position in np.unique(order[np.concatenate([equal, equal + 1])]).tolist():
        line = int(rows.lines[position])
        first = seen.setdefault(rows.questions[position].tobytes(), line)
        if first != line:
            repeated[position] = first
    return repeated


def _without(rows: StatedRows, repeated: Mapping[int, int]) -> StatedRows:
    """Return the other rows, moved in place, because a copy of all rows is large."""
    if not repeated:
        return rows
    kept = np.delete(np.arange(len(rows)), list(repeated))
    for start in range(0, len(kept), ROWS_AT_ONCE):
        part = kept[start : start + ROWS_AT_ONCE]
        for values in (rows.lines, rows.questions, rows.answers, rows.ratings):
            values[start : start + len(part)] = values[part]
    return rows.take(slice(len(kept)))


def read_csv(text: Iterator[str], shown: str, named: Mapping[str, str] | None = None) -> Iterator[TextRow]:
    """Yield the rows of a CSV file with a header; columns may be in any order, other columns are ignored.

    Column names are those of `COLUMN_NAMES`, in any case, or as in `named`. The separator is the one giving a known
    column.
    """
    first = next(text, None)
    if first is not None and first.strip().lower() in EXCEL_SEPARATORS:  # Excel writes it before the header
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
    width = len(columns)
    question, answer, rating = at["question"], at.get("answer", -1), at.get("rating", -1)
    for fields in reader:
        if not fields:
            continue
        problem = ""
        if (count := len(fields)) != width:
            if any(map(str.strip, fields[width:])):
                problem = f"{count} fields; expected {width}, as in the header"
            fields = [*fields[:width], *[""] * (width - count)]
        fields.append("")  # represents a missing column
        yield TextRow(
            reader.line_num,
            fields[question].removeprefix("'"),
            fields[answer].removeprefix("'"),
            fields[rating],
            problem,
        )


@lru_cache(4096)
def _decode_rating(text: str) -> float:
    text = text.strip()
    if not text:
        return math.nan
    try:
        rating = float(text)
    except ValueError:
        rating = math.nan
    if not rating >= 0:
        raise ValueError(f"rating {text!r}: expected a number of 0 or more")
    if rating > MOST_RATING or 0 < rating < LEAST_RATING:
        raise ValueError(f"rating {text!r}: expected 0, or {LEAST_RATING:.1e} to {MOST_RATING:.1e} (float32)")
    return abs(rating)
