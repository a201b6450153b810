"""The page of a dataset on a phone, its legends, and the names of ratings."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import numpy as np
import pytest

import trm_data
from trm_data.catalog.read import SplitCatalog, read_split_catalog
from trm_data.describe import _histograms, dataset_page, histogram
from trm_data.manifest import Manifest, read_manifest
from trm_data.storage.root import Layout, resolve_root


@pytest.fixture(scope="module")
def maze(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    root = tmp_path_factory.mktemp("mazes")
    options = {"grid": "9x9", "size": 12, "val_size": 2, "test_size": 4, "aug": 7, "name": "maze"}
    trm_data.build_dataset("maze", root=root, workers=1, quiet=True, **options)
    return resolve_root(root)


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NO_BROWSER = "no chromium, chromium-browser or google-chrome in PATH: what a page looks like is not tested"
PROBE = """<body><iframe src="page.html" style="width:{width}px;height:900px"></iframe><pre id="found"></pre><script>
addEventListener("load", () => {{
  const page = document.querySelector("iframe").contentDocument.documentElement;
  const right = [...page.querySelectorAll("svg, table")].map(svg => svg.getBoundingClientRect().right);
  const found = {{overflow: page.scrollWidth - page.clientWidth, right: Math.max(...right)}};
  document.querySelector("#found").textContent = JSON.stringify(found);
}});
</script></body>"""


@pytest.mark.skipif(BROWSER is None, reason=NO_BROWSER)
@pytest.mark.parametrize("width", [360, 1400])
@pytest.mark.parametrize("kind", ["sudoku", "maze", "arc"])
def test_nothing_is_wider_than_the_screen(
    small_layout: Layout, tmp_path: Path, width: int, kind: str, request: pytest.FixtureRequest
) -> None:
    layout, name = small_layout, "small"
    if kind != "sudoku":
        layout, name = request.getfixturevalue(kind), kind
    (tmp_path / "page.html").write_text(dataset_page(layout, name))
    (tmp_path / "probe.html").write_text(PROBE.format(width=width))
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
        f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000", "--dump-dom",
        (tmp_path / "probe.html").as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    said = re.search(r'<pre id="found">(.+?)</pre>', done.stdout, re.DOTALL)
    assert said is not None, done.stderr[-2000:]
    found = json.loads(unescape(said[1]))
    assert found["overflow"] == 0
    assert 0 < found["right"] <= width


def test_every_split_has_a_line_of_the_legend() -> None:
    values = {split: np.arange(30.0) for split in ("train", "validation", "test")}
    drawn = histogram(values)
    lines = re.findall(r'<text x="(\d+)" y="(\d+)" fill=[^>]*>(\w+) \(n 30', drawn)
    assert [name for *_, name in lines] == ["train", "validation", "test"]
    assert len({x for x, *_ in lines}) == 1
    places = [int(y) for _, y, _ in lines]
    assert min(b - a for a, b in itertools.pairwise(places)) >= 12
    height = re.search(r'viewBox="0 0 \d+ (\d+)"', drawn)
    assert height is not None
    assert places[-1] < int(height[1])


def titles(manifest: Manifest, catalogs: dict[str, SplitCatalog]) -> list[str]:
    return [title for title, _ in _histograms(manifest, catalogs)]


def test_only_ratings_of_the_solver_are_guesses(small_layout: Layout) -> None:
    manifest = read_manifest(small_layout, "small")
    found = read_split_catalog(small_layout.dataset("small"), manifest, "train")
    assert "rating (guesses)" in titles(manifest, {"train": found})
    stated = {**found.facts, "rating_source": ["file"] * len(found.facts["rating"])}
    other = titles(manifest, {"train": dataclasses.replace(found, facts=stated)})
    assert "rating (as the source states it)" in other
    assert not any("guesses" in title for title in other)
    mixed = titles(manifest, {"train": found, "test": dataclasses.replace(found, facts=stated)})
    assert "rating (guesses; of puzzles whose source states one, that)" in mixed


def test_mazes_and_tasks_have_no_guesses(maze: Layout, arc: Layout) -> None:
    for layout, name in ((maze, "maze"), (arc, "arc")):
        page = dataset_page(layout, name)
        assert "guesses" not in page
        assert "<svg" in page
    assert "path length (steps)" in dataset_page(maze, "maze")
