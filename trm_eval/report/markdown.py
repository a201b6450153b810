"""A page as Markdown, with its figures and tables as files beside it."""

from __future__ import annotations

import re
from html import escape

from trm_data.show.table import markdown_cell, markdown_text
from trm_eval.report.blocks import (
    Animation,
    Block,
    Bullets,
    Drawings,
    Heading,
    Page,
    Picture,
    Query,
    Table,
    Text,
)


def to_markdown(page: Page, files: str) -> str:
    """A page as Markdown.

    Args:
        page: What to write.
        files: Folder of its figures and tables, as links name it; empty for the page's own.
    """
    at = f"{files}/" if files else ""
    return "\n".join([f"# {markdown_text(page.title)}", "", *(_block(block, at) for block in page.blocks)])


def _block(block: Block, at: str) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {markdown_text(block.text)}\n"
        case Text():
            return f"{markdown_text(block.text)}\n"
        case Bullets():
            return "\n".join(f"- {markdown_text(line)}" for line in block.lines) + "\n"
        case Table():
            lines = [block.columns, ["---"] * len(block.columns), *block.rows]
            cells = "\n".join("| " + " | ".join(map(markdown_cell, line)) + " |" for line in lines)
            return f"{cells}\n\n[{block.file}]({at}{block.file})\n"
        case Picture():
            files = [name for name in (block.data_file, block.png_file) if name]
            links = " ".join(f"[{name}]({at}{name})" for name in files)
            queries = "\n".join(_folded(query) for query in block.queries)
            return f"![{_alternative(block.says)}]({at}{block.file})\n\n{links}\n\n{queries}"
        case Drawings() | Animation():
            return f"{markdown_text(block.says)}\n\n![{_alternative(block.says)}]({at}{block.name}.svg)\n"
        case Query():
            return f"{markdown_text(block.says[0].upper() + block.says[1:])}:\n\n{_fenced(block.sql)}\n"


def _folded(query: Query) -> str:
    """SQL that is seen on request, where Markdown is shown as a page."""
    return f"<details><summary>SQL: {escape(query.says)}</summary>\n\n{_fenced(query.sql)}\n\n</details>\n"


def _fenced(sql: str) -> str:
    """SQL as a block of code, whatever backquotes are in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", sql)), default=0))
    return f"{fence}sql\n{sql}\n{fence}"


def _alternative(text: str) -> str:
    """The words of an image."""
    return markdown_text(text).replace("]", "\\]")
