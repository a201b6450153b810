"""Column names and separators of CSV sources, and cells stated as JSON lists.

Neighbours: `sources.rows` reads the rows under them, `sources.base` detects CSV files by them.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from trm_data.errors import SourceError, SpecError, closest

CSV_COLUMNS = ("source", "question", "answer", "rating")
"""Column names of the published files."""
COLUMN_NAMES = {
    "question": ("question", "puzzle", "quizzes", "quiz", "maze"),
    "answer": ("answer", "solution", "solutions"),
    "rating": ("rating",),
}
"""Accepted column names by meaning; the first of these that a file has is used."""
CELLS = re.compile(r"[0-9._*#SGo -]+")
LEAST_CELLS = 16
"""Minimum length of a header field that counts as a puzzle: the number of cells of the smallest grid."""
SEPARATORS = (",", ";", "\t", "|")
"""Accepted column separators."""
EXCEL_SEPARATORS = tuple(f"sep={mark}".strip() for mark in SEPARATORS)
"""First lines by which a spreadsheet's export declares its separator."""


def find_separator(header: str, named: Mapping[str, str] | None = None) -> str:
    """Return the separator of a header that has a column of puzzles; empty if there is no such column."""
    for mark in SEPARATORS:
        columns = next(csv.reader([header], delimiter=mark), [])
        if any(name.strip().lower() in _names("question", named) for name in columns):
            return mark
    return ""


def separator_of(header: str, wanted: Sequence[str]) -> str:
    """Return the separator of a header that has all wanted columns; a comma if no separator gives them."""
    for mark in SEPARATORS:
        if set(wanted) <= set(next(csv.reader([header], delimiter=mark), [])):
            return mark
    return SEPARATORS[0]


def find_columns(header: Sequence[str], named: Mapping[str, str] | None, shown: str) -> dict[str, int]:
    """Return the positions of the columns to read, by their meaning."""
    found = [name.strip().lower() for name in header]
    at: dict[str, int] = {}
    for column in COLUMN_NAMES:
        for name in _names(column, named):
            if found.count(name) > 1:
                raise SourceError(f"{shown}:1: has the column {name!r} twice")
            if name in found:
                at[column] = found.index(name)
                break
    return at


def no_column(name: str, header: Sequence[str]) -> str:
    """Return a message with the missing column, the closest name, and the existing columns."""
    close = closest(name, header)
    meant = f"; did you mean {close!r}?" if close is not None else ""
    return f"has no column {name!r}{meant} (found {', '.join(header)})"


def looks_like_cells(header: Sequence[str]) -> bool:
    """Return whether the header line contains a puzzle, so that the file has no header."""
    return any(len(name) >= LEAST_CELLS and CELLS.fullmatch(name) for name in map(str.strip, header))


def parse_columns(text: str, columns: Sequence[str] = tuple(COLUMN_NAMES)) -> dict[str, str]:
    """Parse `question=NAME,answer=NAME,rating=NAME` into column names by meaning.

    Args:
        text: The user's text.
        columns: Allowed meanings.
    """
    named: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        column, equal, name = part.partition("=")
        if not equal or not name.strip() or column.strip() not in columns or column.strip() in named:
            known = ", ".join(f"{each}=NAME" for each in columns)
            said = f"--columns {text}: one or several of {known}, each once; NAME is what the file calls it"
            if name.strip() in columns and column.strip() not in columns:
                said += f" ({part.strip()} the other way round: {name.strip()}={column.strip()})"
            raise SpecError(said)
        named[column.strip()] = name.strip()
    return named


def _names(column: str, named: Mapping[str, str] | None) -> tuple[str, ...]:
    return (named[column].strip().lower(),) if named and column in named else COLUMN_NAMES[column]


MOST_CHARACTERS = 1 << 20
"""Maximum length of a list of numbers in a cell."""


def is_json(text: str) -> bool:
    """Return whether a text begins like a JSON list."""
    return text.startswith("[")


def json_cells(text: str) -> list[Any]:
    """Parse a JSON list, or list of lists, of numbers."""
    allowed = "a list of integers, or a list of such lists"
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"{len(text):,} characters: expected at most {MOST_CHARACTERS:,}")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON ({error}); expected {allowed}") from error
    found = cast(list[Any], value) if isinstance(value, list) else []
    if not _numbers(found) and not (found and all(_numbers(row) for row in found)):
        rows = found if any(isinstance(row, list) for row in found) else [found]
        cells = [cell for row in rows for cell in (cast(list[Any], row) if isinstance(row, list) else [row])]
        wrong = next((at for at, cell in enumerate(cells) if type(cell) is not int), None)
        got = "" if wrong is None else f"got {json.dumps(cells[wrong])[:40]} at position {wrong + 1}; "
        raise ValueError(f"{got}expected {allowed}")
    return found


def flat_cells(text: str) -> list[int]:
    """Parse the numbers into one flat list."""
    found = json_cells(text)
    return [cell for row in found for cell in row] if isinstance(found[0], list) else found


def _numbers(value: object) -> bool:
    """Return whether a value is a nonempty list of integers."""
    return (
        isinstance(value, list) and bool(value) and all(type(cell) is int for cell in cast(list[Any], value))
    )
