"""Writes a report: a folder with `index.html`, `report.md` and a file for each figure and table, or one Markdown file.

A Markdown file has its figures and tables in a folder of its own name beside it.
"""

from __future__ import annotations

from pathlib import Path

from trm_data.storage.atomic import write_bytes
from trm_eval.errors import EvalError
from trm_eval.report.html import to_html
from trm_eval.report.markdown import to_markdown
from trm_eval.report.page import Page, Picture, Table


def write_report(page: Page, out: Path) -> list[Path]:
    """Write a report, every file whole or not at all; returns them, the one to open first.

    Args:
        page: What to write.
        out: A folder, or a file that ends in .md.

    Raises:
        EvalError: `out` is a file of another kind.
        OSError: It cannot be written.
    """
    alone = out.suffix == ".md"
    if out.is_file() and not alone:
        raise EvalError(f"--out {out}: is a file; name a folder, or a file that ends in .md")
    beside = out.with_suffix("") if alone else out
    beside.mkdir(parents=True, exist_ok=True)
    contents: dict[Path, bytes] = {}
    if alone:
        contents[out] = to_markdown(page, beside.name).encode()
    else:
        contents[out / "index.html"] = to_html(page).encode()
        contents[out / "report.md"] = to_markdown(page, "").encode()
    for block in page.blocks:
        if isinstance(block, Table):
            contents[beside / block.file] = block.csv()
        elif isinstance(block, Picture):
            contents[beside / block.file] = block.svg
            if block.data_file:
                contents[beside / block.data_file] = block.csv()
    for path, content in contents.items():
        write_bytes(path, content)
    return list(contents)
