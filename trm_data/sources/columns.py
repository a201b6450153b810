"""What the columns of a CSV source are called, and what stands between them.

Neighbours: `sources.rows` reads the rows under them, `sources.base` tells by them what a file holds.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence

from trm_data.errors import SourceError, SpecError

CSV_COLUMNS = ("source", "question", "answer", "rating")
"""Those of the published files."""
COLUMN_NAMES = {
    "question": ("question", "puzzle", "quizzes", "quiz", "maze"),
    "answer": ("answer", "solution", "solutions"),
    "rating": ("rating",),
}
"""What columns are called, by what they are; of several that are there the first of these counts."""
SEPARATORS = (",", ";", "\t", "|")
"""What may stand between columns."""


def find_separator(header: str, named: Mapping[str, str] | None = None) -> str:
    """What separates the columns of a header, one of which has the puzzles; empty where none has."""
    for mark in SEPARATORS:
        columns = next(csv.reader([header], delimiter=mark), [])
        if any(name.strip().lower() in _names("question", named) for name in columns):
            return mark
    return ""


def find_columns(header: Sequence[str], named: Mapping[str, str] | None, shown: str) -> dict[str, int]:
    """Where the columns stand that are read, by what they are.

    Raises:
        SourceError: A name stands there twice.
    """
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


def parse_columns(text: str) -> dict[str, str]:
    """Names of columns in a file, by what they are, of `question=NAME,answer=NAME,rating=NAME`.

    Raises:
        SpecError: Another form.
    """
    named: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        column, equal, name = part.partition("=")
        if not equal or not name.strip() or column.strip() not in COLUMN_NAMES or column.strip() in named:
            known = ", ".join(f"{each}=NAME" for each in COLUMN_NAMES)
            raise SpecError(f"--columns {text}: one or several of {known}, each once")
        named[column.strip()] = name.strip()
    return named


def _names(column: str, named: Mapping[str, str] | None) -> tuple[str, ...]:
    return (named[column].strip().lower(),) if named and column in named else COLUMN_NAMES[column]
