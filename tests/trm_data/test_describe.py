"""Examples selected by row, by rating, or as a whole task."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.conftest import run_here, small_request
from tests.trm_data.kinds.test_arc import request
from tests.trm_eval.test_votes import arc_folder
from trm_data.building.flow import build_dataset
from trm_data.catalog.query import query_catalog
from trm_data.cli import main
from trm_data.describe import rated_rows, read_example, task_rows
from trm_data.errors import SpecError
from trm_data.kinds.sudoku.options import SudokuOptions
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
        (("--index", "999999"), "--index 999999: small has"),
        (("--rating", "5..1"), "--rating 5..1: the lower bound is above"),
    ],
)
def test_what_cannot_be_shown(show: Show, words: tuple[str, ...], message: str) -> None:
    refused = show("small", *words)
    assert refused.returncode == 2
    assert message in refused.stderr
