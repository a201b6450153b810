"""Tables for the terminal: drawn for people, or in a form for machines."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from trm_data.errors import QueryError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.text import Text

    from trm_data.show.drawing import Drawing

Form = Literal["table", "csv", "json", "markdown", "parquet"]
"""How the result of a query is printed."""


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

    @property
    def table(self) -> pa.Table | None:
        """The same with its types, for Parquet."""
        ...


def print_result(result: Result, form: Form) -> None:
    """Print the result of a query: a table for people, or in a form for machines.

    Raises:
        QueryError: Parquet would be printed on a terminal.
    """
    if form == "table":
        print_table(result.columns, result.rows)
    elif form == "parquet":
        if sys.stdout.isatty():
            raise QueryError(
                "--format parquet is for programs, not for a terminal; add --out FILE, or pipe it"
            )
        sys.stdout.buffer.write(result_bytes(result, form))
    else:
        sys.stdout.write(result_bytes(result, form).decode())


def result_bytes(result: Result, form: Form) -> bytes:
    """The result of a query as it stands in a file; for Parquet it needs its table."""
    if form != "parquet":
        return _text(result, form).encode()
    import pyarrow.parquet as pq

    assert result.table is not None
    content = io.BytesIO()
    pq.write_table(result.table, content, compression="zstd")
    return content.getvalue()


def _text(result: Result, form: Form) -> str:
    text = io.StringIO()
    if form == "csv":
        import csv

        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(result.columns)
        writer.writerows(result.rows)
    elif form == "json":
        records = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
        text.write(json.dumps(_finite(records), indent=1, default=str, allow_nan=False) + "\n")
    elif form == "markdown":
        numeric = _numeric(result.columns, result.rows)
        lines = [result.columns, ["---:" if right else "---" for right in numeric]]
        lines += [[_cell(value) for value in row] for row in result.rows]
        text.writelines(f"| {' | '.join(map(_in_markdown, line))} |\n" for line in lines)
    else:
        print_table(result.columns, result.rows, text)
    return text.getvalue()


def _in_markdown(cell: str) -> str:
    return " ".join(cell.replace("|", "\\|").split("\n"))


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def print_table(
    columns: list[str], rows: Sequence[tuple[object, ...]], file: io.StringIO | None = None
) -> None:
    """A table: drawn on a terminal, tab-free aligned text elsewhere, or in a file."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_header=any(columns), pad_edge=False)
    for column, numeric in zip(columns, _numeric(columns, rows), strict=True):
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    console = Console() if file is None and sys.stdout.isatty() else Console(width=200, file=file)
    console.print(table, markup=False, highlight=False)
    if not rows:
        console.print(" (no rows)", markup=False, highlight=False)


def _numeric(columns: list[str], rows: Sequence[tuple[object, ...]]) -> list[bool]:
    """Which columns have nothing but numbers."""
    return [
        bool(rows) and all(isinstance(row[position], (int, float)) for row in rows)
        for position in range(len(columns))
    ]


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
