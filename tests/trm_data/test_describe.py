"""Examples selected by row, by rating, or as a whole task.

The page of a dataset on a phone, its legends, and the names of ratings.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html import unescape
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

import trm_data
from tests.conftest import run_here, small_request
from tests.trm_data.kinds.test_arc import request
from tests.trm_eval.test_votes import arc_folder
from trm_data.building.flow import build_dataset
from trm_data.catalog.query import query_catalog
from trm_data.catalog.read import SplitCatalog, read_split_catalog
from trm_data.cli import main
from trm_data.describe import _histograms, dataset_page, histogram, rated_rows, read_example, task_rows
from trm_data.errors import SpecError
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.manifest import Manifest, read_manifest
from trm_data.storage.root import Layout, resolve_root


@pytest.fixture(scope="module")
def arc(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A root with a dataset of a few tasks, `arc`. Tests must not change it."""
    folder = tmp_path_factory.mktemp("tasks")
    layout = resolve_root(folder / "root")
    build_dataset(request(arc_folder(folder / "arc"), aug=3, val_size=1), layout)
    return layout


Show = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def show(small_layout: Layout) -> Show:
    return lambda *words: run_here(main, "show", *words, "--root", str(small_layout.place))


def test_rows_of_a_rating_are_originals_of_puzzles_that_have_it(tmp_path: Path) -> None:
    small_layout = resolve_root(tmp_path)
    options = SudokuOptions(box_rows=2, box_columns=3, rating_bins=(0, 1))
    build_dataset(small_request(options=options, val_size=0, test_size=2), small_layout)
    ratings = dict(
        query_catalog(
            small_layout,
            "SELECT group_index, rating FROM puzzles WHERE dataset = 'small' AND split = 'train'",
        ).rows
    )
    assert len(set(ratings.values())) > 1
    for said, wanted in (
        ("1..", lambda r: r >= 1),
        ("..0", lambda r: r <= 0),
        ("0..2", lambda r: 0 <= r <= 2),
    ):
        shown = [
            read_example(small_layout, "small", "train", row)
            for row in rated_rows(small_layout, "small", "train", said, 1000)
        ]
        assert [one.group for one in shown] == sorted(group for group in ratings if wanted(ratings[group])), (
            said
        )
        assert {one.augmentation for one in shown} <= {0}


def test_a_task_is_all_its_pairs_and_no_augmentation(arc: Layout) -> None:
    found = query_catalog(
        arc, "SELECT task, num_examples FROM puzzles WHERE split = 'train' ORDER BY group_index"
    ).rows
    for task, examples in found:
        shown = [read_example(arc, "arc", "train", row) for row in task_rows(arc, "arc", "train", task)]
        assert len(shown) == examples
        assert len({one.group for one in shown}) == 1
        assert {one.augmentation for one in shown} == {0}


@pytest.mark.parametrize("words", ["x", "..", "1..x", "", "nan", "..inf", "1..inf", "nan..3"])
def test_ratings_that_are_none(small_layout: Layout, words: str) -> None:
    with pytest.raises(SpecError, match=r"expected a number or LOW\.\.HIGH"):
        rated_rows(small_layout, "small", "train", words, 1)


def test_nobody_has_the_rating_or_the_name(small_layout: Layout, arc: Layout) -> None:
    with pytest.raises(
        SpecError, match=r"--rating 99\.\.: the train puzzles of small have ratings from \S+ to \d"
    ):
        rated_rows(small_layout, "small", "train", "99..", 1)
    with pytest.raises(
        SpecError, match=r"no such train task in arc; did you mean 'task1'\?|did you mean 'task"
    ):
        task_rows(arc, "arc", "train", "tas1")


def test_several_on_the_command_line(show: Show, tmp_path: Path) -> None:
    drawn = show("small", "--index", "3", "--count", "3")
    assert drawn.returncode == 0, drawn.stderr
    assert [line.split(":")[0] for line in drawn.stdout.splitlines() if line.startswith("train")] == [
        "train 3",
        "train 4",
        "train 5",
    ]
    assert isinstance(json.loads(show("small", "--json").stdout), dict)
    assert len(json.loads(show("small", "--json", "--count", "2").stdout)) == 2
    for name in ("two.svg", "two.png"):
        assert show("small", "--count", "2", "--out", str(tmp_path / name)).returncode == 0
    assert (tmp_path / "two.svg").read_text().count(">solution</text>") == 2
    assert (tmp_path / "two.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--index", "1", "--rating", "1"), "--index and --rating: use only one"),
        (("--count", "0"), "--count 0: expected at least 1"),
        (("--index", "999999"), "--index 999999: small has"),
        (("--task", "x"), "--task x: small has no tasks"),
        (("--rating", "5..1"), "--rating 5..1: the lower bound is above"),
    ],
)
def test_what_cannot_be_shown(show: Show, words: tuple[str, ...], message: str) -> None:
    refused = show("small", *words)
    assert refused.returncode == 2
    assert message in refused.stderr


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
