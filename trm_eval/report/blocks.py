"""Blocks of a report: headings, text, tables, figures and drawings, with their numbers and SQL.

`page` and similar modules make blocks; `write` writes them unchanged.
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
    """A heading of level 2 or lower."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph of plain text."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of plain sentences."""

    lines: list[str]


@dataclass(frozen=True)
class Table:
    """A table, also written as a CSV file.

    Attributes:
        file: Name of its CSV file.
        columns: Column names.
        rows: Text of each cell.
        data: Unrounded values by column name, for the CSV file.
    """

    file: str
    columns: list[str]
    rows: list[list[str]]
    data: list[dict[str, Any]]

    def csv(self) -> bytes:
        """Return the data as CSV."""
        return _csv(self.data, self.columns)


def _csv(rows: list[dict[str, Any]], columns: list[str]) -> bytes:
    """Return rows as CSV; `columns` is the header of an empty table."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)
    return out.getvalue().encode()


@dataclass(frozen=True)
class Query:
    """SQL that figures are made from.

    Attributes:
        says: Description of the result.
        sql: The query; parameters are `?`.
    """

    says: str
    sql: str


@dataclass(frozen=True)
class Picture:
    """A figure with its data and the SQL that gave them.

    Attributes:
        name: Name of its files, without suffix.
        drawn: The figure.
        title: Title above the figure.
        says: Description of the figure, as alternative text.
        data: Rows of numbers; empty if a table has them.
        queries: Queries that gave the numbers.
    """

    name: str
    drawn: Drawn
    title: str
    says: str
    data: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    queries: tuple[Query, ...] = ()

    @property
    def data_file(self) -> str:
        """Name of the CSV file with its numbers; empty if a table has them."""
        return f"{self.name}.csv" if self.data else ""

    def csv(self) -> bytes:
        """Return the numbers as CSV."""
        return _csv(self.data, [])


@dataclass(frozen=True)
class Drawings:
    """Titled drawings side by side.

    Attributes:
        name: Name of their files, without suffix.
        says: Description, a sentence.
        drawings: Titles and drawings, in order.
    """

    name: str
    says: str
    drawings: list[tuple[str, Drawing]]


@dataclass(frozen=True)
class Animation:
    """Drawings shown one after another in one place.

    Attributes:
        name: Name of its files, without suffix.
        says: Description, a sentence.
        frames: Titles and drawings, in order.
    """

    name: str
    says: str
    frames: list[tuple[str, Drawing]]


Block = Heading | Text | Bullets | Table | Picture | Drawings | Animation | Query


@dataclass(frozen=True)
class Page:
    """A report.

    Attributes:
        title: Title of the report.
        blocks: Blocks, in order.
    """

    title: str
    blocks: list[Block]
