"""Tables for the terminal: drawn for people, CSV or JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Literal, Protocol


class Result(Protocol):
    """The result of a query: columns by name, rows of plain values."""

    @property
    def columns(self) -> list[str]:
        """Names."""
        ...

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """Values, in the order of the columns."""
        ...


def print_result(result: Result, form: Literal["table", "csv", "json"]) -> None:
    """Print the result of a query: a table for people, CSV or JSON for machines."""
    if form == "csv":
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(result.columns)
        writer.writerows(result.rows)
    elif form == "json":
        records = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
        print(json.dumps(records, indent=1, default=str))
    else:
        print_table(result.columns, result.rows)


def print_table(columns: list[str], rows: Sequence[tuple[object, ...]]) -> None:
    """A table: drawn on a terminal, tab-free aligned text elsewhere."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_header=any(columns), pad_edge=False)
    for position, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[position], (int, float)) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    console = Console() if sys.stdout.isatty() else Console(width=200)
    console.print(table, markup=False, highlight=False)


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
