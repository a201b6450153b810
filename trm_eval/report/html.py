"""A page as one HTML file that needs no network: figures inside, tables that sort, readable in light and dark.

Without its script all of it can be read: tables stand in their first order, and what moves is drawn frame by frame too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import groupby

from trm_data.show.drawing import Drawing
from trm_data.show.picture import svg, svg_animation
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
from trm_eval.report.canvas import GRID, INK, PAPER
from trm_eval.report.html_style import SCRIPT, STYLE

NUMBER = re.compile(r"[+-]?[\d,]+(\.\d+)?%?")
SHORT = 28
"""Characters of a cell whose words stay on one line: an interval, the name of a run."""


BESIDE = "\0beside/"
"""Stands in links for the folder of the files."""


def to_html(page: Page, files: str = "") -> str:
    """A page as one HTML document.

    Args:
        page: What to write.
        files: Folder of its figures and tables, as links name it; empty for the page's own.
    """
    headings = [block for block in page.blocks if isinstance(block, Heading) and block.level == 2]
    links = "".join(f'<a href="#{_anchor(head.text)}">{_words(head.text)}</a>' for head in headings)
    parts = groupby(page.blocks, lambda block: isinstance(block, Picture))
    body = "\n".join(
        f'<div class="figures">{inner}</div>' if pictures else inner
        for pictures, blocks in parts
        for inner in ["\n".join(map(_block, blocks))]
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(page.title)}</title><style>{STYLE}</style></head>\n"
        f'<body><h1>{_words(page.title)}</h1>\n<nav aria-label="Contents">{links}</nav>\n'
        f"{_linked(body, files)}\n<script>{SCRIPT}</script></body></html>\n"
    )


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f'<h{block.level} id="{_anchor(block.text)}">{_words(block.text)}</h{block.level}>'
        case Text():
            return f"<p>{_words(block.text)}</p>"
        case Bullets():
            return "<ul>" + "".join(f"<li>{_words(line)}</li>" for line in block.lines) + "</ul>"
        case Table():
            return _table(block)
        case Picture():
            return _picture(block)
        case Drawings():
            return f"<p>{_words(block.says)}</p>{_row(block.drawings)}{_files(*block.files)}"
        case Animation():
            return _animation(block)
        case Query():
            return _query(block)


def _query(query: Query) -> str:
    code = f'<pre tabindex="0"><code>{escape(query.sql)}</code></pre>'
    return f"<details><summary>SQL: {_words(query.says)}</summary>{code}</details>"


def _picture(picture: Picture) -> str:
    files = _files(picture.data_file, picture.file, picture.png_file)
    return (
        f"<figure><figcaption>{_words(picture.title)}</figcaption>"
        f'<div role="img" aria-label="{escape(picture.says)}">{_inline(picture)}</div>'
        f"{files}{''.join(map(_query, picture.queries))}</figure>"
    )


def _row(drawings: Sequence[tuple[str, Drawing]]) -> str:
    """Drawings side by side, as many as the window is wide."""
    each = (
        f'<figure><figcaption>{_words(name)}</figcaption><div role="img" aria-label="{escape(name)}">'
        f"{svg(drawing)}</div></figure>"
        for name, drawing in drawings
    )
    return f'<div class="drawings">{"".join(each)}</div>'


def _animation(animation: Animation) -> str:
    moving = svg_animation(animation.frames)
    return (
        f"<p>{_words(animation.says)}</p>"
        f'<div class="drawings"><figure class="moving"><div role="img" aria-label="{escape(animation.says)}">{moving}'
        '</div><button type="button" hidden>Pause</button></figure></div>'
        f"{_files(*animation.files)}"
        f"<details><summary>Every step</summary>{_row(animation.frames)}</details>"
    )


def _linked(body: str, files: str) -> str:
    """A body whose links to files lead into their folder."""
    return body.replace(f'<a href="{BESIDE}', f'<a href="{escape(f"{files}/")}' if files else '<a href="')


def _files(*names: str) -> str:
    """Links to the files that lie beside the page."""
    links = " ".join(f'<a href="{BESIDE}{escape(name)}">{escape(name)}</a>' for name in names if name)
    return f'<p class="files">{links}</p>'


def _table(table: Table) -> str:
    head = "".join(
        f'<th scope="col"><button type="button">{_words(name)}</button></th>' for name in table.columns
    )
    rows = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in table.rows)
    link = _files(table.file)
    body = f"<thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody>"
    return f'<div class="wide" tabindex="0"><table>{body}</table></div>{link}'


def _cell(text: str) -> str:
    kind = "number" if NUMBER.fullmatch(text) else "short" if len(text) <= SHORT else "long"
    return f'<td class="{kind}">{_words(text)}</td>'


def _words(text: str) -> str:
    """Plain words, with code between backquotes."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _inline(picture: Picture) -> str:
    """An SVG file as a part of a page: no XML head, ids of its own, since ids are the page's, and the page's ink."""
    text = picture.drawn.svg.decode("utf-8")
    text = text[text.index("<svg") :]
    for colour, own in ((INK, "var(--ink)"), (GRID, "var(--line)"), (PAPER, "var(--paper)")):
        text = text.replace(f": {colour}", f": {own}")
    prefix = _anchor(picture.file)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'(xlink:href|href)="#([^"]+)"', rf'\1="#{prefix}-\2"', text)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)
