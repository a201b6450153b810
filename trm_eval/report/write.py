"""Writes a report: a folder with `index.html`, `report.md` and files for each figure and table, or one of both pages.

A page that is written alone has its figures and tables in a folder of its own name beside it.
"""

from __future__ import annotations

from pathlib import Path

from trm_data.show.picture import png_row, svg_animation, svg_row
from trm_data.storage.atomic import write_bytes
from trm_eval.errors import EvalError
from trm_eval.report.blocks import Animation, Block, Drawings, Page, Picture, Table
from trm_eval.report.html import to_html
from trm_eval.report.markdown import to_markdown


def write_report(page: Page, out: Path) -> list[Path]:
    """Write a report, every file whole or not at all; returns them, the one to open first.

    Args:
        page: What to write.
        out: A folder, or a file that ends in .md or .html.

    Raises:
        EvalError: `out` is a file of another kind.
        OSError: It cannot be written.
    """
    alone = out.suffix in (".md", ".html")
    if out.is_file() and not alone:
        raise EvalError(f"--out {out}: is a file; name a folder, or a file that ends in .md or .html")
    if alone and out.is_dir():
        raise EvalError(f"--out {out}: is a folder; name another file")
    beside = out.with_suffix("") if alone else out
    beside.mkdir(parents=True, exist_ok=True)
    contents: dict[Path, bytes] = {}
    if alone:
        written = to_markdown if out.suffix == ".md" else to_html
        contents[out] = written(page, beside.name).encode()
    else:
        contents[out / "index.html"] = to_html(page, "").encode()
        contents[out / "report.md"] = to_markdown(page, "").encode()
    for block in page.blocks:
        contents |= {beside / name: content for name, content in _files_of(block).items()}
    for path, content in contents.items():
        write_bytes(path, content)
    return list(contents)


def _files_of(block: Block) -> dict[str, bytes]:
    """The files that a block has beside the page, by name."""
    match block:
        case Table():
            return {block.file: block.csv()}
        case Picture():
            data = {block.data_file: block.csv()} if block.data_file else {}
            png = {block.png_file: block.drawn.png} if block.png_file else {}
            return {block.file: block.drawn.svg, **png, **data}
        case Drawings():
            png = {f"{block.name}.png": png_row(block.drawings)} if block.png else {}
            return {f"{block.name}.svg": svg_row(block.drawings).encode(), **png}
        case Animation():
            png = {f"{block.name}.png": png_row(block.frames)} if block.png else {}
            return {f"{block.name}.svg": svg_animation(block.frames).encode(), **png}
        case _:
            return {}
