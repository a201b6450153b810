"""Blocks of a report: headings, text, tables, figures and drawings, with their numbers and SQL; and their pages.

`page` and similar modules make blocks; `write_report` writes them unchanged: a folder with `index.html`, `report.md`
and a file per figure and table.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from markupsafe import Markup

from trm_data.show.drawing import Drawing
from trm_data.show.picture import svg, svg_row
from trm_data.show.table import csv_cell, markdown_text
from trm_data.show.template import render
from trm_data.storage.atomic import write_bytes
from trm_eval.errors import EvalError
from trm_eval.report.canvas import GRID, INK, PAPER


@dataclass(frozen=True)
class Heading:
    """A heading of level 2."""

    text: str


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
        shown: Text of each cell by column name, the same columns in every row.
        data: Unrounded values by column name, for the CSV file.
    """

    file: str
    shown: list[dict[str, str]]
    data: list[dict[str, Any]]


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
        drawn: The figure, as SVG.
        title: Title above the figure.
        says: Description of the figure, as alternative text.
        data: Rows of numbers; empty if a table has them.
        queries: Queries that gave the numbers.
    """

    name: str
    drawn: bytes
    title: str
    says: str
    data: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    queries: tuple[Query, ...] = ()

    @property
    def data_file(self) -> str:
        """Name of the CSV file with its numbers; empty if a table has them."""
        return f"{self.name}.csv" if self.data else ""


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


Block = Heading | Text | Bullets | Table | Picture | Drawings | Query


@dataclass(frozen=True)
class Page:
    """A report.

    Attributes:
        title: Title of the report.
        blocks: Blocks, in order.
    """

    title: str
    blocks: list[Block]


NUMBER = re.compile(r"[+-]?[\d,]+(\.\d+)?%?")
SHORT = 28
"""Maximum length of a cell without line breaks (characters): fits an interval or the name of a run."""


def write_report(page: Page, out: Path) -> list[Path]:
    """Write a report to a folder, each file atomically; return the files, the one to open first comes first."""
    if out.is_file() or out.suffix in (".md", ".html"):
        raise EvalError(f"--out {out}: expected a folder; it gets index.html and report.md. Name another one")
    out.mkdir(parents=True, exist_ok=True)
    files = {name: content for block in page.blocks for name, content in _files_of(block).items()}
    pages = {"index.html": to_html(page).encode(), "report.md": to_markdown(page).encode()}
    for name, content in (pages | files).items():
        write_bytes(out / name, content)
    return [out / name for name in pages | files]


def to_csv(rows: list[dict[str, Any]]) -> bytes:
    """Return rows with the same columns as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)
    return out.getvalue().encode()


def to_html(page: Page) -> str:
    """Return a page as one HTML file that works offline: embedded figures, sortable tables, light and dark mode.

    It is readable without its script: tables are then in their first order.
    """
    return render(
        "trm_eval",
        "report.html",
        page=page,
        headings=[block for block in page.blocks if isinstance(block, Heading)],
        parts=[
            (pictures, _kinds(blocks))
            for pictures, blocks in groupby(page.blocks, lambda block: isinstance(block, Picture))
        ],
        anchor=_anchor,
        cell_class=lambda text: (
            "number" if NUMBER.fullmatch(text) else "short" if len(text) <= SHORT else "long"
        ),
        inline=_inline,
        svg=lambda drawing: Markup(svg(drawing)),
    )


def to_markdown(page: Page) -> str:
    """Return a page as Markdown, with its figures and tables as separate files; see `to_html`."""
    return render(
        "trm_eval",
        "report.md",
        page=page,
        blocks=_kinds(page.blocks),
        alternative=lambda text: markdown_text(text).replace("]", "\\]"),
        fenced=_fenced,
    )


def _kinds(blocks: Iterable[Block]) -> list[tuple[str, Block]]:
    return [(type(block).__name__, block) for block in blocks]


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _inline(picture: Picture) -> Markup:
    """Return an SVG file for embedding in a page: no XML header, unique ids, and the page's colours."""
    text = picture.drawn.decode("utf-8")
    text = text[text.index("<svg") :]
    for colour, own in ((INK, "var(--ink)"), (GRID, "var(--line)"), (PAPER, "var(--paper)")):
        text = text.replace(f": {colour}", f": {own}")
    prefix = _anchor(f"{picture.name}.svg")
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'(xlink:href|href)="#([^"]+)"', rf'\1="#{prefix}-\2"', text)
    return Markup(re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text))


def _fenced(sql: str) -> str:
    """Return SQL as a fenced code block, even if it contains backquotes."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", sql)), default=0))
    return f"{fence}sql\n{sql}\n{fence}"


def _files_of(block: Block) -> dict[str, bytes]:
    """Return the files of a block, by name."""
    match block:
        case Table():
            return {block.file: to_csv(block.data)}
        case Picture():
            files = {f"{block.name}.svg": block.drawn}
            return files | ({block.data_file: to_csv(block.data)} if block.data_file else {})
        case Drawings():
            return {f"{block.name}.svg": svg_row(block.drawings).encode()}
        case _:
            return {}
