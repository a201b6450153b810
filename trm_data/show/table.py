"""Format tables as lines of text: aligned columns, with names and numbers never broken.

With a width, for a terminal, rich shrinks or wraps columns of words down to `WORDS` characters. Columns that still do
not fit are hidden from the right, and a line names them. Without a width, for a pipe, each row with all its columns
is one line. That format does not use rich: 4,159 rows of 38 columns take 0.2 s here and 15 s with rich.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

WORDS = 16
"""Minimum width of a column of words, in characters, if not all columns fit."""
NAME = 64
"""Maximum length of a name or hash that is never cut, in characters."""
ROWS = 100
"""Maximum number of rows shown on a terminal."""

Long = Literal["wrap", "cut"]
"""Display of words that do not fit: on further lines of their column, or cut with an ellipsis."""

_VISIBLE = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160))}


@dataclass(frozen=True)
class Column:
    """A column as text.

    Args:
        name: Header of the column.
        cells: Text of each row.
        right: Whether to align right, as for numbers.
        flexible: Whether the column has words, which may be cut or wrapped.
        width: Width in characters.
    """

    name: str
    cells: list[str]
    right: bool
    flexible: bool
    width: int

    @property
    def least(self) -> int:
        """Minimum width in characters at which the column is shown."""
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
    """Return the lines of a table.

    Args:
        columns: Names; no header is written if all are empty.
        rows: Values, in the order of the columns.
        width: Characters in a line; None for no limit.
        most_rows: Rows to show; None for all.
        long: How to shorten words that do not fit.
        hint: How to see what is left out.
    """
    shown = rows if most_rows is None else rows[:most_rows]
    laid = [_column(name, [row[at] for row in shown], long) for at, name in enumerate(columns)]
    gap, fitting = 3, laid
    if width is not None:
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
    hidden = [column.name for column in laid[len(fitting) :]]
    if hidden:
        said = f"{len(hidden)} column{'s' * (len(hidden) > 1)} hidden: {', '.join(hidden)}{hint}"
        lines += _below(said, width)
    return lines


def _below(text: str, width: int | None) -> list[str]:
    """Return the lines of a remark, without breaking names."""
    wrapped = textwrap.wrap(text, (width or 80) - 3, break_long_words=False, break_on_hyphens=False)
    return [f" {'  ' * (at > 0)}{line}" for at, line in enumerate(wrapped)]


def cell_text(value: object) -> str:
    """Return a value as text on one line."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return value.hex()
    return visible(f"{value:.6g}" if isinstance(value, float) else str(value))


def visible(text: str) -> str:
    """Return text with escapes in place of line ends and other characters that would move a terminal's cursor."""
    return text if text.isprintable() else text.translate(_VISIBLE)


def csv_cell(value: object) -> object:
    """Return a value for CSV; text that a spreadsheet would run as a formula gets a leading apostrophe."""
    if isinstance(value, bytes):
        return value.hex()
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return value
    try:
        float(value)
    except ValueError:
        return value if value == "-" else f"'{value}"
    return value


def markdown_text(text: str) -> str:
    """Return text for a Markdown page, on one line, without HTML, links and images; code in backquotes stays."""
    parts = " ".join(text.splitlines()).split("`")
    if len(parts) % 2 == 0:  # an unpaired backquote
        parts = ["\\`".join(parts)]
    for at in range(0, len(parts), 2):
        parts[at] = (
            parts[at].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("[", "\\[")
        )
    return "`".join(parts)


def markdown_cell(text: str) -> str:
    """Return text for a cell of a Markdown table."""
    return markdown_text(text).replace("|", "\\|")


def numeric_columns(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[bool]:
    """Return which columns have only numbers."""
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


def _fit(columns: list[Column], width: int) -> tuple[int, list[Column]]:
    """Return the gap between columns, and the columns that fit into a line, at least the first."""
    wide = sum(column.width for column in columns) + 3 * (len(columns) - 1)
    gap = 3 if 1 + wide <= width else 2
    ends = accumulate(column.least + gap for column in columns)
    return gap, columns[: max(1, sum(end - gap + 1 <= width for end in ends))]


def _plain(columns: list[Column], gap: int) -> list[str]:
    """Return a header line, then a line for every row."""
    padded = [[_pad(cell, column) for cell in (column.name, *column.cells)] for column in columns]
    return [(" " + (" " * gap).join(row)).rstrip() for row in zip(*padded, strict=True)]


def _shrunk(columns: list[Column], gap: int, width: int, long: Long) -> list[str]:
    """Like `_plain`, within a width: words are wrapped or cut."""
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
    """Return the width of a text on a terminal; characters of some scripts take two columns."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
