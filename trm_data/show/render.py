"""Output of tables as text for people, or in machine-readable formats."""

from __future__ import annotations

import io
import json
import math
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

from trm_data.errors import QueryError
from trm_data.show.drawing import MARKS, WRONG_COLOUR, ink, letter
from trm_data.show.table import (
    ROWS,
    Long,
    cell_text,
    csv_cell,
    markdown_cell,
    numeric_columns,
    table_lines,
    visible,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.text import Text

    from trm_data.show.drawing import Drawing

OutputFormat = Literal["table", "csv", "json", "markdown", "parquet"]
"""Output format of a query."""

DRAWN: OutputFormat = "table"
"""Default output format, for human readers."""

IN_A_PIPE = "; a pipe (| less -S) has all"


@dataclass(frozen=True)
class QueryResult:
    """The result of a query: columns by name and rows of plain Python values."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    problems: tuple[str, ...] = ()
    """One line for each unreadable item that was left out."""
    table: pa.Table | None = None
    """The result with Arrow types, if requested; `rows` is then empty."""


def print_result(
    result: QueryResult, form: OutputFormat, *, wide: bool = False, hint: str = IN_A_PIPE
) -> None:
    """Print the result of a query as a table for people, or in a machine-readable format.

    Args:
        result: Result of a query.
        form: Output format.
        wide: Print the whole table on a terminal too.
        hint: How to see what does not fit on a terminal.
    """
    if form == "table":
        print_table(result.columns, result.rows, wide=wide, long="cut", hint=hint)
    elif form == "parquet":
        if sys.stdout.isatty():
            raise QueryError("--format parquet: stdout is a terminal. Add --out FILE, or use a pipe")
        sys.stdout.buffer.write(result_bytes(result, form))
    else:
        text = result_bytes(result, form).decode()
        # CSV has all characters of a text; on a terminal some would be commands.
        sys.stdout.write("\n".join(map(visible, text.split("\n"))) if sys.stdout.isatty() else text)


def result_bytes(result: QueryResult, form: OutputFormat) -> bytes:
    """Return the result of a query as file content; Parquet needs its Arrow table."""
    if form != "parquet":
        return _text(result, form).encode()
    import pyarrow.parquet as pq

    assert result.table is not None
    content = io.BytesIO()
    pq.write_table(result.table, content, compression="zstd")
    return content.getvalue()


def _text(result: QueryResult, form: OutputFormat) -> str:
    if form == "table":
        return "\n".join(["", *table_lines(result.columns, result.rows), "", ""])
    text = io.StringIO()
    if form == "csv":
        import csv

        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(result.columns)
        writer.writerows([csv_cell(value) for value in row] for row in result.rows)
    elif form == "json":
        twice = sorted({name for name in result.columns if result.columns.count(name) > 1})
        if twice:
            raise QueryError(f"--format json: two columns have the name {twice[0]!r}; rename one with AS")
        records = [
            {name: _in_json(name, value) for name, value in zip(result.columns, row, strict=True)}
            for row in result.rows
        ]
        text.write(json.dumps(records, indent=1, default=str, allow_nan=False) + "\n")
    else:
        numeric = numeric_columns(result.columns, result.rows)
        lines = [
            list(map(_cell_in_markdown, result.columns)),
            ["---:" if right else "---" for right in numeric],
        ]
        lines += [[_cell_in_markdown(value) for value in row] for row in result.rows]
        text.writelines(f"| {' | '.join(line)} |\n" for line in lines)
    return text.getvalue()


def _cell_in_markdown(value: object) -> str:
    if isinstance(value, str):
        value = " ".join(value.split("\n"))
    return markdown_cell(cell_text(value))


def _in_json(column: str, value: Any) -> Any:
    """Return a value as JSON holds it; raise QueryError for numbers that it lacks."""
    if isinstance(value, dict):
        return {key: _in_json(column, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_in_json(column, item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    number = float(value) if isinstance(value, Decimal) else value
    if isinstance(number, float) and (
        not math.isfinite(number) or Decimal(repr(number)) != Decimal(str(value))
    ):
        raise QueryError(
            f'--format json: column {column}: JSON has no number {value}. Cast it: "{column}"::VARCHAR'
        )
    return number


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    wide: bool = False,
    long: Long = "wrap",
    hint: str = IN_A_PIPE,
) -> None:
    """Print a table: on a terminal as much as fits, naming what is left out; otherwise all of it.

    Args:
        columns: Names; no header is written if all are empty.
        rows: Values, in the order of the columns.
        wide: Print the whole table on a terminal too.
        long: How to shorten words that do not fit on a terminal.
        hint: How to see what does not fit on a terminal.
    """
    if wide or not sys.stdout.isatty():
        lines = table_lines(columns, rows)
    else:
        width = shutil.get_terminal_size().columns
        lines = table_lines(columns, rows, width=width, most_rows=ROWS, long=long, hint=hint)
    sys.stdout.write("\n".join(["", *lines, "", ""]))


def print_drawings(drawings: Sequence[tuple[str, Drawing]]) -> None:
    """Print drawings side by side, each under its heading: in colour on a terminal, otherwise as plain text.

    Wrong and changed cells have a mark, explained in a line below. On a terminal, given cells of an answer are bold and
    answered ones blue.
    """
    if sys.stdout.isatty():
        from rich.columns import Columns
        from rich.console import Console

        Console(highlight=False).print(
            Columns([_coloured(name, drawing) for name, drawing in drawings], padding=(0, 4))
        )
    else:
        _print_blocks([[name, *drawing.text(marks=True).splitlines()] for name, drawing in drawings])
    marks = {drawing.mark(*cell) for _, drawing in drawings for cell in product(*map(range, drawing.shape))}
    if said := ", ".join(f"{mark} {meaning}" for mark, meaning in MARKS.items() if mark in marks):
        print(f"  after a cell: {said}")


def _print_blocks(blocks: Sequence[Sequence[str]]) -> None:
    """Print blocks of lines side by side; their sizes may differ."""
    widths = [max(map(len, block), default=0) for block in blocks]
    for row in range(max(map(len, blocks), default=0)):
        cells = (block[row] if row < len(block) else "" for block in blocks)
        line = "    ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        print(f"  {line.rstrip()}")


def _coloured(name: str, drawing: Drawing) -> Text:
    """Return a drawing for a terminal: two columns per cell, in its colour, with lines between boxes."""
    from rich.text import Text

    text = Text(f"{name}\n", style="")
    for line in replace(drawing, spaced=True).lines(marks=True):
        style = ""
        for piece, cell in line:
            if cell is not None:
                style = _style(drawing, *cell)
            elif piece and piece[0] in "|+-":
                style = ""
            text.append(piece or " ", style=style)
        text.append("\n")
    return text


def _style(drawing: Drawing, row: int, column: int) -> str:
    background = drawing.palette[int(drawing.colours[row, column])]
    colour, weight = letter(drawing, row, column)
    if drawing.marked is not None and drawing.marked[row, column]:
        colour, weight = WRONG_COLOUR if ink(background) == "#000000" else colour, "bold"
    return f"{'bold ' * (weight == 'bold')}{colour} on {background}"
