"""The dashboard in headless Chromium: pages load without errors or external requests, and follow running runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.trm_eval.serve.browser import BROWSER, NO_BROWSER, Tab, a_tab, follow

PAGES = {
    "Learning curves": "Exact accuracy in validation",
    "Evaluations": "Exact accuracy by supervision step",
    "Puzzles": "This command draws every cycle of the answer:",
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
