"""The benchmarks page: new sections replace those with the same title, and no other section is lost."""

from __future__ import annotations

import importlib.util

from tests.conftest import PROJECT


def test_sections_of_the_page_are_replaced_one_by_one() -> None:
    spec = importlib.util.spec_from_file_location("render_docs", PROJECT / "benchmarks" / "render_docs.py")
    assert spec is not None
    assert spec.loader is not None
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    page = (PROJECT / "docs" / "benchmarks.md").read_text("utf-8")
    assert pages.with_sections(page, []) == page
    titles = [line for line in page.splitlines() if line.startswith("## ")]
    changed = pages.with_sections(page, [f"{titles[1]}\n\nanother\n", "## new\n\none\n"])
    assert [line for line in changed.splitlines() if line.startswith("## ")] == [*titles, "## new"]
    assert f"{titles[1]}\n\nanother\n\n{titles[2]}\n" in changed
    assert changed.endswith("\n\n## new\n\none\n")
