"""Formats tables as lines of text: columns aligned, names and numbers never broken.

With a width, for a terminal, rich shrinks or wraps columns of words down to `WORDS` characters; columns that still do
not fit are hidden from the right, and a line names them. Without a width, for a pipe, every column is printed on one
line a row. That form does not use rich: 4,159 rows of 38 columns take 0.2 s here and 15 s with rich.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

WORDS = 16
"""Letters that a column of words has at least, where there is no room for all of them."""
NAME = 64
"""Letters of the longest name or hash that is never cut."""
ROWS = 100
"""Rows that a terminal shows."""

Long = Literal["wrap", "cut"]
"""What becomes of words that have no room: further lines of their column, or an ellipsis."""

_VISIBLE = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160))}
"""Line ends, and the rest of what would move a terminal's cursor, as they are written in Python."""


@dataclass(frozen=True)
class Column:
    """A column as text.

    Args:
        name: Its header.
        cells: A text for each row.
        right: Numbers, which end at the same place.
        flexible: Words, which may be cut or wrapped.
        width: Letters.
    """

    name: str
    cells: list[str]
    right: bool
    flexible: bool
    width: int

    @property
    def least(self) -> int:
        """Letters without which it is not shown."""
        return min(self.width, max(WORDS, _width(self.name))) if self.flexible else self.width


def table_lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    width: int | None = None,
    most_rows: int | None = None,
    long: Long = "wrap",
    hint: str = "",
) -> list[str]:
    """The lines of a table.

    Where not all columns have room, those that say the same in every row are said once, below, for others to have it.

    Args:
        columns: Names; no header is written where all are empty.
        rows: Values, in the order of the columns.
        width: Letters in a line; None: as many as it takes.
        most_rows: Rows to show; None: all.
        long: What becomes of words that have no room.
        hint: How to see what is left out.
    """
    shown = rows if most_rows is None else rows[:most_rows]
    laid = [_column(name, [row[at] for row in shown], long) for at, name in enumerate(columns)]
    gap, fitting = 3, laid
    same: list[Column] = []
    if width is not None:
        gap, fitting = _fit(laid, width)
        if len(fitting) < len(laid):
            same = _same(columns, rows, laid)
            laid = [column for column in laid if column not in same]
            gap, fitting = _fit(laid, width)
    lines = _plain(fitting, gap) if width is None else _shrunk(fitting, gap, width, long)
    if any(columns):
        lines.insert(1, " " + "─" * (max(map(_width, lines)) - 1))
    else:
        lines = lines[1:]
    if not rows:
        lines.append(" (no rows)")
    if len(shown) < len(rows):
        lines.append(f" {len(shown):,} of {len(rows):,} rows shown{hint}")
    if same:
        said = ", ".join(f"{column.name} {column.cells[0]}" for column in same)
        lines += _below(f"the same in every row: {said}", width)
    hidden = [column.name for column in laid[len(fitting) :]]
    if hidden:
        said = f"{len(hidden)} column{'s' * (len(hidden) > 1)} hidden: {', '.join(hidden)}{hint}"
        lines += _below(said, width)
    return lines


def _below(text: str, width: int | None) -> list[str]:
    """The lines of a remark, with no name in pieces."""
    wrapped = textwrap.wrap(text, (width or 80) - 3, break_long_words=False, break_on_hyphens=False)
    return [f" {'  ' * (at > 0)}{line}" for at, line in enumerate(wrapped)]


def vertical_lines(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """The lines of rows that are written one below the other, each with a line for every column."""
    widest = max(map(_width, columns), default=0)
    lines: list[str] = []
    for number, row in enumerate(rows, start=1):
        if len(rows) > 1:
            lines += [""] * (number > 1) + [f" row {number:,} of {len(rows):,}"]
        for name, value in zip(columns, row, strict=True):
            lines.append(f" {name}{' ' * (widest - _width(name))}   {cell_text(value)}".rstrip())
    return lines or [" (no rows)"]


def cell_text(value: object) -> str:
    """A value in one line."""
    if value is None:
        return "NULL"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if text.isprintable() else text.translate(_VISIBLE)


def csv_cell(value: object) -> object:
    """A value for CSV: text that a spreadsheet would run as a formula gets an apostrophe before it."""
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return value
    try:
        float(value)
    except ValueError:
        return value if value == "-" else f"'{value}"
    return value


def markdown_text(text: str) -> str:
    """Text for a page of Markdown, in one line: no HTML, no links and no images; code between backquotes stays."""
    parts = " ".join(text.splitlines()).split("`")
    if len(parts) % 2 == 0:  # a backquote without another
        parts = ["\\`".join(parts)]
    for at in range(0, len(parts), 2):
        parts[at] = (
            parts[at].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("[", "\\[")
        )
    return "`".join(parts)


def markdown_cell(text: str) -> str:
    """Text for a cell of a Markdown table."""
    return markdown_text(text).replace("|", "\\|")


def numeric_columns(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[bool]:
    """Which columns have nothing but numbers."""
    return [bool(rows) and _is_numeric([row[at] for row in rows]) for at in range(len(columns))]


def _is_numeric(values: Sequence[object]) -> bool:
    return all(isinstance(value, (int, float)) for value in values)


def _column(name: str, values: list[object], long: Long) -> Column:
    right = bool(values) and _is_numeric(values)
    cells = [cell_text(value) for value in values]
    flexible = not right and any(
        isinstance(value, (str, list, tuple, dict))
        and (" " in cell.strip() or (long == "cut" and len(cell) > NAME))
        for value, cell in zip(values, cells, strict=True)
    )
    name = cell_text(name)
    return Column(name, cells, right, flexible, max(max(map(_width, cells), default=0), _width(name)))


def _same(columns: Sequence[str], rows: Sequence[Sequence[object]], laid: list[Column]) -> list[Column]:
    """The columns that say the same in every row, of several rows; never all of them."""
    found = [
        column
        for at, column in enumerate(laid)
        if columns[at]
        and len(rows) > 1
        and all(cell_text(row[at]) == cell_text(rows[0][at]) for row in rows[1:])
    ]
    return found if len(found) < len(laid) else []


def _fit(columns: list[Column], width: int) -> tuple[int, list[Column]]:
    """Spaces between columns, and the columns that fit into a line, at least the first."""
    wide = sum(column.width for column in columns) + 3 * (len(columns) - 1)
    gap = 3 if 1 + wide <= width else 2
    ends = accumulate(column.least + gap for column in columns)
    return gap, columns[: max(1, sum(end - gap + 1 <= width for end in ends))]


def _plain(columns: list[Column], gap: int) -> list[str]:
    """A line of names, then a line for every row."""
    padded = [[_pad(cell, column) for cell in (column.name, *column.cells)] for column in columns]
    return [(" " + (" " * gap).join(row)).rstrip() for row in zip(*padded, strict=True)]


def _shrunk(columns: list[Column], gap: int, width: int, long: Long) -> list[str]:
    """The same as `_plain` within a width: words are wrapped or cut."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, gap, 0, 0))
    for column in columns:
        table.add_column(
            justify="right" if column.right else "left",
            no_wrap=not column.flexible,
            min_width=column.least,
        )
    for row in zip(*((column.name, *column.cells) for column in columns), strict=True):
        table.add_row(*(Text(cell, no_wrap=long == "cut", overflow="ellipsis") for cell in row))
    least = sum(column.least for column in columns) + gap * (len(columns) - 1)
    console = Console(width=max(width - 1, least), color_system=None, legacy_windows=False)
    with console.capture() as captured:
        console.print(table)
    return [f" {line}".rstrip() for line in captured.get().splitlines()]


def _pad(cell: str, column: Column) -> str:
    blank = " " * (column.width - _width(cell))
    return blank + cell if column.right else cell + blank


def _width(text: str) -> int:
    """Letters' places on a terminal; some scripts take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
