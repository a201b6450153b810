"""Blocks of a report: headings, text, tables, figures and drawings, with their numbers and SQL.

`page` and its neighbours make blocks; `write` takes them as they are.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from typing import Any

from trm_data.show.drawing import Drawing
from trm_data.show.table import csv_cell
from trm_eval.report.canvas import Drawn


@dataclass(frozen=True)
class Heading:
    """A heading of the second or a lower level."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph of plain words."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of plain sentences."""

    lines: list[str]


@dataclass(frozen=True)
class Table:
    """A table, which is a file of its own too.

    Attributes:
        file: Name of its CSV file.
        columns: Names.
        rows: A word for each column.
        data: The same unrounded, by name; that is what the file has.
    """

    file: str
    columns: list[str]
    rows: list[list[str]]
    data: list[dict[str, Any]]

    def csv(self) -> bytes:
        """The data as CSV."""
        return _csv(self.data, self.columns)


def _csv(rows: list[dict[str, Any]], columns: list[str]) -> bytes:
    """Rows by name as CSV; the columns are those of an empty table."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)
    return out.getvalue().encode()


@dataclass(frozen=True)
class Query:
    """SQL that figures come from.

    Attributes:
        says: What it gives.
        sql: The query; parameters are `?`.
    """

    says: str
    sql: str


@dataclass(frozen=True)
class Picture:
    """A figure, with its numbers and the SQL that gave them.

    Attributes:
        name: Of its files, without an ending.
        drawn: The figure.
        title: Above it.
        says: What it shows, for those who do not see it.
        data: Its numbers, a row each; none where a table has them.
        queries: What gave them.
    """

    name: str
    drawn: Drawn
    title: str
    says: str
    data: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    queries: tuple[Query, ...] = ()

    @property
    def data_file(self) -> str:
        """Name of the CSV file with its numbers; empty where a table has them."""
        return f"{self.name}.csv" if self.data else ""

    def csv(self) -> bytes:
        """The numbers as CSV."""
        return _csv(self.data, [])


@dataclass(frozen=True)
class Drawings:
    """Titled drawings side by side.

    Attributes:
        name: Of its files, without an ending.
        says: What they are, a sentence.
        drawings: In order.
    """

    name: str
    says: str
    drawings: list[tuple[str, Drawing]]


@dataclass(frozen=True)
class Animation:
    """Drawings one after another, in one place.

    Attributes:
        name: Of its files, without an ending.
        says: What happens, a sentence.
        frames: In order.
    """

    name: str
    says: str
    frames: list[tuple[str, Drawing]]


Block = Heading | Text | Bullets | Table | Picture | Drawings | Animation | Query


@dataclass(frozen=True)
class Page:
    """A report.

    Attributes:
        title: Of the whole.
        blocks: What it consists of, in order.
    """

    title: str
    blocks: list[Block]
