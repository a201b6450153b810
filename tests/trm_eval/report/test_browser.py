"""A report in headless Chromium: no errors, visible figures, sortable tables, and no overflow on a phone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from typing import Any

import numpy as np
import pytest

from trm_data.show.drawing import Drawing
from trm_eval.report.blocks import (
    Bullets,
    Drawings,
    Heading,
    Page,
    Picture,
    Query,
    Table,
    Text,
    to_html,
)
from trm_eval.report.canvas import draw, looks

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NO_BROWSER = "no chromium, chromium-browser or google-chrome in PATH: what a page looks like is not tested"
LONG = "a-name-of-a-run-that-is-far-longer-than-any-telephone-is-wide-and-has-no-place-to-break-" * 2

PROBE = """
<script>
addEventListener("load", () => {
  const page = document.querySelector("iframe").contentDocument, view = page.defaultView;
  const firsts = () => [...page.querySelectorAll("tbody tr")].map(row => row.cells[1].textContent);
  const head = page.querySelectorAll("th button")[1], orders = [firsts()];
  head.click(); orders.push(firsts());
  head.click(); orders.push(firsts());
  const shown = [...page.querySelectorAll("svg")]
    .filter(svg => !svg.closest("details") && !svg.parentElement.closest("svg"));
  const found = {
    orders, sort: head.parentElement.getAttribute("aria-sort"),
    sizes: shown.map(svg => [svg.getBoundingClientRect().width, svg.getBoundingClientRect().height]),
    overflow: page.documentElement.scrollWidth - page.documentElement.clientWidth,
    errors: view.failures,
    edges: [...page.querySelectorAll(".wide")].map(wide =>
      [wide.scrollWidth > wide.clientWidth, view.getComputedStyle(wide).backgroundAttachment]),
    requests: view.performance.getEntriesByType("resource").length,
  };
  document.querySelector("#found").textContent = JSON.stringify(found);
});
</script>
"""


def a_page() -> Page:
    """Return a page with every kind of block, with long and wide content."""
    grid = Drawing(("12", "34"), np.zeros((2, 2), np.uint8), ("#ffffff",), marked=np.eye(2, dtype=bool))
    curve = draw(lambda axis: axis.plot([1, 2, 3], [1, 4, 9], **looks(["squares"])[0]))
    words = dict.fromkeys("cdefghijkl", "word " * 3)
    rows = [{"name": name, "count": n, **words} for name, n in (("b", "1,000"), ("a", "20.5"), (LONG, "3"))]
    return Page(
        "A report",
        [
            Heading("First"),
            Text(f"See `{LONG}`."),
            Bullets(["one", LONG]),
            Table("t.csv", rows, []),
            Picture("one", curve, "Squares", "squares", queries=(Query("squares", f"SELECT '{LONG}'"),)),
            Picture("two", curve, "Squares again", "squares"),
            Drawings("three", "A puzzle", [("puzzle", grid), ("answer", grid)]),
            Query("all", "SELECT 1"),
        ],
    )


@pytest.fixture(scope="module", params=[360, 1400])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Measurements of a page in a frame of the given width."""
    if BROWSER is None:
        pytest.skip(NO_BROWSER)
    listen = '<script>window.failures = []; addEventListener("error", e => failures.push(e.message), true);</script>'
    inner = to_html(a_page()).replace("<head>", f"<head>{listen}")
    folder = tmp_path_factory.mktemp("browser")
    (folder / "probe.html").write_text(
        f'<!doctype html><body style="margin:0"><pre id="found"></pre><iframe width="{request.param}" height="900" '
        f'style="border:0" srcdoc="{escape(inner)}"></iframe>{PROBE}</body>'
    )
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=5000", "--dump-dom",
        (folder / "probe.html").as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    said = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert said is not None, done.stderr[-2000:]
    assert said[1], done.stderr[-2000:]
    return json.loads(unescape(said[1]))


def test_it_loads_without_errors_and_asks_for_nothing(found: dict[str, Any]) -> None:
    assert found["errors"] == []
    assert found["requests"] == 0


def test_figures_show(found: dict[str, Any]) -> None:
    assert len(found["sizes"]) == 4  # two figures, two drawings
    for width, height in found["sizes"][:2]:
        assert width > 250
        assert height > 150
    assert all(min(size) > 20 for size in found["sizes"])


def test_tables_sort_by_number_both_ways(found: dict[str, Any]) -> None:
    assert found["orders"] == [["1,000", "20.5", "3"], ["3", "20.5", "1,000"], ["1,000", "20.5", "3"]]
    assert found["sort"] == "descending"


def test_nothing_is_wider_than_the_window(found: dict[str, Any]) -> None:
    assert found["overflow"] <= 0


def test_a_table_wider_than_the_window_has_a_shadow_where_it_goes_on(found: dict[str, Any]) -> None:
    assert found["edges"] == [[True, "local, local, scroll, scroll"]]
