"""Tables for the terminal: drawn for people, CSV or JSON for machines."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from rich.text import Text

    from trm_data.show.drawing import Drawing


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
        print(json.dumps(_finite(records), indent=1, default=str, allow_nan=False))
    else:
        print_table(result.columns, result.rows)


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


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
    if not rows:
        console.print(" (no rows)", markup=False, highlight=False)


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def print_drawings(drawings: Sequence[Drawing]) -> None:
    """Drawings side by side: in colour on a terminal, as plain text elsewhere."""
    if sys.stdout.isatty():
        from rich.columns import Columns
        from rich.console import Console

        Console().print(Columns([_coloured(drawing) for drawing in drawings], padding=(0, 4)))
        return
    blocks = [drawing.text().splitlines() for drawing in drawings]
    widths = [max(map(len, block), default=0) for block in blocks]
    for row in range(max(map(len, blocks), default=0)):
        cells = (block[row] if row < len(block) else "" for block in blocks)
        line = "    ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        print(f"  {line.rstrip()}")


def _coloured(drawing: Drawing) -> Text:
    from rich.text import Text

    from trm_data.show.drawing import ink

    text = Text()
    for row, symbols in enumerate(drawing.symbols):
        for column, symbol in enumerate(symbols):
            background = drawing.palette[int(drawing.colours[row, column])]
            text.append(f"{symbol} ", style=f"{ink(background)} on {background}")
        text.append("\n")
    return text
