"""A page as one HTML file that needs no network: figures inside, tables that sort, readable in light and dark."""

from __future__ import annotations

import re
from html import escape

from trm_eval.report.page import Block, Bullets, Heading, Page, Picture, Query, Table, Text

STYLE = """
:root { color-scheme: light dark; --ink: #1f2937; --paper: #ffffff; --line: #d1d5db; --soft: #f3f4f6; --link: #0059a3; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e5e7eb; --paper: #111827; --line: #374151; --soft: #1f2937; --link: #7cc4ff; }
}
body { margin: 0 auto; max-width: 62rem; padding: 1rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { line-height: 1.2; }
h2 { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1rem; line-height: 1.3; }
nav { columns: 14rem; font-size: .9rem; }
nav a { display: block; }
a { color: var(--link); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th button { all: unset; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid var(--link); }
th[aria-sort=ascending] button::after { content: " \\25B2"; }
th[aria-sort=descending] button::after { content: " \\25BC"; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; background: #ffffff; border-radius: .4rem; }
figure svg { width: 100%; height: auto; display: block; }
pre { background: var(--soft); padding: .8rem; overflow-x: auto; font-size: .8rem; }
code { font-size: .9em; }
"""

SCRIPT = """
for (const head of document.querySelectorAll("th button")) head.onclick = () => {
  const cell = head.parentElement, body = cell.closest("table").tBodies[0], column = cell.cellIndex;
  const up = cell.getAttribute("aria-sort") !== "ascending";
  for (const other of cell.parentElement.cells) other.removeAttribute("aria-sort");
  cell.setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = row => row.cells[column].textContent, number = text => parseFloat(text.replace(/,/g, ""));
  [...body.rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)], [m, n] = [number(x), number(y)];
    const order = isNaN(m) || isNaN(n) ? x.localeCompare(y, "en", { numeric: true }) : m - n;
    return (up ? 1 : -1) * order;
  }).forEach(row => body.append(row));
};
"""

NUMBER = re.compile(r"[+-]?[\d,]+(\.\d+)?%?")


def to_html(page: Page) -> str:
    """A page as one HTML document."""
    headings = [block for block in page.blocks if isinstance(block, Heading)]
    links = "".join(f'<a href="#{_anchor(head.text)}">{_words(head.text)}</a>' for head in headings)
    body = "\n".join(_block(block) for block in page.blocks)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(page.title)}</title><style>{STYLE}</style></head>\n"
        f'<body><h1>{_words(page.title)}</h1>\n<nav aria-label="Contents">{links}</nav>\n'
        f"{body}\n<script>{SCRIPT}</script></body></html>\n"
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
            data = escape(block.data_file)
            link = f'<p><a href="{data}">{data}</a></p>' if data else ""
            return f'<figure role="img" aria-label="{escape(block.says)}">{_inline(block)}</figure>{link}'
        case Query():
            return f'<p>{_words(block.says)}:</p><pre tabindex="0"><code>{escape(block.sql)}</code></pre>'


def _table(table: Table) -> str:
    head = "".join(
        f'<th scope="col"><button type="button">{_words(name)}</button></th>' for name in table.columns
    )
    rows = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in table.rows)
    link = f'<p><a href="{escape(table.file)}">{escape(table.file)}</a></p>'
    body = f"<thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody>"
    return f'<div class="wide" tabindex="0"><table>{body}</table></div>{link}'


def _cell(text: str) -> str:
    kind = ' class="number"' if NUMBER.fullmatch(text) else ""
    return f"<td{kind}>{_words(text)}</td>"


def _words(text: str) -> str:
    """Plain words, with code between backquotes."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _inline(picture: Picture) -> str:
    """An SVG file as a part of a page: no XML head, and names of its own, since ids are the page's."""
    text = picture.svg.decode("utf-8")
    text = text[text.index("<svg") :]
    prefix = _anchor(picture.file)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'(xlink:href|href)="#([^"]+)"', rf'\1="#{prefix}-\2"', text)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)
