"""The dashboard in headless Chromium: pages load without errors or external requests, and follow running runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.trm_eval.serve.browser import BROWSER, NO_BROWSER, Tab, a_tab, follow
from tests.trm_eval.serve.conftest import served
from trm_data.storage.root import Layout

PAGES = {
    "Learning curves": "Exact accuracy in validation",
    "Evaluations": "Exact accuracy by supervision step",
    "Puzzles": "From the traces of this evaluation.",
    "SQL": "Queries that ship with the package",
    "Runs": "2 runs.",
}
"""Text on each page after it has loaded."""
GUESSED = re.compile(r"\(Not Found\) http://[^/]+/\w+/_stcore/(health|host-config)$")
"""Streamlit first looks for its server under the address of a page."""


pytestmark = pytest.mark.slow  # minutes: a server and a browser for every page and width


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    if BROWSER is None:
        pytest.skip(NO_BROWSER)
    with a_tab(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.mark.parametrize("width", [390, 1400])
def test_every_page_loads_and_asks_for_nothing_elsewhere(address: str, tab: Tab, width: int) -> None:
    tab.resize(width)
    tab.errors.clear()
    tab.requests.clear()
    tab.open(address, "2 runs.")
    main = "document.querySelector('[data-testid=stMainBlockContainer]').innerText.trim().split('\\n')[0]"
    assert tab.run(main) == "Runs"
    for label, text in PAGES.items():
        follow(tab, label)
        tab.wait(text)
        assert not tab.run(main).startswith("CSS"), "Streamlit prints a docstring"
        assert tab.run("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, (
            label
        )
    assert tab.errors == []
    assert len(tab.requests) > 10
    assert [url for url in tab.requests if not url.startswith((address, "data:", "blob:"))] == []


def test_figures_and_drawings_show(address: str, tab: Tab) -> None:
    tab.resize(1400)
    size = "[image.complete, image.naturalWidth, image.getBoundingClientRect().width]"
    sizes = f"[...document.images].map(image => {size})"
    for label, count in (("Learning curves", 2), ("Evaluations", 2), ("Puzzles", 4)):
        tab.open(address, "2 runs.")
        follow(tab, label)
        tab.wait(PAGES[label])
        tab.wait_until(f"{sizes}.length >= {count} && [...document.images].every(image => image.complete)")
        found = tab.run(sizes)
        assert all(complete and natural > 50 and shown > 50 for complete, natural, shown in found), found


def test_names_that_are_html_are_text(hostile: Layout, tab: Tab) -> None:
    with served(hostile, "--port", "0") as (_, address):
        tab.errors.clear()
        tab.run("window.alert = text => console.error('alerted', text)")
        tab.open(address, "1 runs.")
        for label, text in {**PAGES, "Puzzles": "No traces of this puzzle", "Runs": "1 runs."}.items():
            follow(tab, label)
            tab.wait("" if label in ("Learning curves", "Evaluations") else text)
            assert tab.run("document.querySelectorAll('img[src=x], [onerror]').length") == 0
        assert tab.errors == []
