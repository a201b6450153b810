"""The benchmarks page: new sections replace those with the same title, and no other section is lost."""

from __future__ import annotations

from tests.conftest import PROJECT
from tests.support.scripts import load_script


def test_sections_of_the_page_are_replaced_one_by_one() -> None:
    pages = load_script(PROJECT / "benchmarks" / "render_docs.py")
    page = (PROJECT / "docs" / "benchmarks.md").read_text("utf-8")
    assert pages.with_sections(page, []) == page
    titles = [line for line in page.splitlines() if line.startswith("## ")]
    changed = pages.with_sections(page, [f"{titles[1]}\n\nanother\n", "## new\n\none\n"])
    assert [line for line in changed.splitlines() if line.startswith("## ")] == [*titles, "## new"]
    assert f"{titles[1]}\n\nanother\n\n{titles[2]}\n" in changed
    assert changed.endswith("\n\n## new\n\none\n")
