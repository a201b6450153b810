"""Maze datasets: generated and read; every bad row is named; the published file is read completely."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from trm_data.building.flow import build_dataset
from trm_data.catalog.query import query_catalog
from trm_data.errors import BadRowError, SpecError
from trm_data.kinds.maze.kind import MazeKind
from trm_data.kinds.maze.options import MazeOptions
from trm_data.kinds.maze.solve import label_mazes
from trm_data.kinds.maze.source import decode_maze
from trm_data.loader.dataset import open_dataset
from trm_data.sources.base import parse_source
from trm_data.specs import BuildRequest
from trm_data.storage.root import Layout, resolve_root
from trm_data.verify.flow import verify_dataset

OPTIONS = MazeOptions(rows=5, columns=5, min_path=6)


def request(**changes) -> BuildRequest:
    fields = {"size": 12, "aug": 7, "val_size": 3, "test_size": 4, "seed": 2, "name": "mazes", **changes}
    source = fields.pop("source", parse_source("generated"))
    return BuildRequest(kind="maze", source=source, **{"options": OPTIONS, **fields})


@pytest.fixture
def layout(tmp_path) -> Layout:
    return resolve_root(tmp_path / "root")


def csv_request(tmp_path, rows: list[str], **changes) -> BuildRequest:
    path = tmp_path / "mazes.csv"
    path.write_text("source,question,answer,rating\n" + "\n".join(rows) + "\n")
    fields = {"size": len(rows), "aug": 0, "val_size": 0, "test_size": 0, **changes}
    options = fields.pop("options", dataclasses.replace(OPTIONS, min_path=0))
    return request(source=parse_source(f"csv:{path}", allowed=("csv",)), options=options, **fields)


def test_generated_mazes(layout: Layout) -> None:
    manifest = build_dataset(request(), layout).manifest
    assert manifest.splits["train"].num_puzzles <= 12 * 8
    assert manifest.vocabulary_size == 6
    found = verify_dataset(layout, "mazes")
    assert found.problems == []
    assert found.counts["originals labelled by the published rule"] == 19
    lengths = query_catalog(
        layout, "SELECT min(path_length), count(DISTINCT canonical_hash) FROM puzzles"
    ).rows
    assert lengths[0][0] >= 6
    assert lengths[0][1] == 19


def cells(*lines: str) -> np.ndarray:
    return decode_maze("".join(lines), 5, 5)


MAZE = cells("S  # ", " # # ", " #   ", " ### ", "    G")
LABEL = cells("S  # ", "o# # ", "o#   ", "o### ", "ooooG")


@pytest.mark.parametrize(
    ("maze", "label", "answer", "given_kept", "valid", "optimal"),
    [
        (MAZE, LABEL, LABEL, True, True, True),
        (
            MAZE,
            LABEL,
            cells("Soo# ", "o#o# ", "o#ooo", "o###o", "ooooG"),
            True,
            False,
            False,
        ),  # two paths at once
        (
            MAZE,
            LABEL,
            cells("Soo# ", " #o# ", " #ooo", " ###o", "    G"),
            True,
            True,
            True,
        ),  # another shortest path
        (MAZE, LABEL, cells("S  # ", "o# # ", "o#   ", "o### ", "oo oG"), True, False, False),  # a gap
        (MAZE, LABEL, cells("S  # ", "o# #o", "o#   ", "o### ", "ooooG"), True, False, False),  # a stray mark
        (MAZE, LABEL, cells("S    ", "o# # ", "o#   ", "o### ", "ooooG"), False, False, False),  # a wall less
        (MAZE, LABEL, cells("S S# ", "o# # ", "o#   ", "o### ", "ooooG"), True, False, False),
        (MAZE, LABEL, np.zeros(25, np.uint8), False, False, False),
        (MAZE, LABEL, MAZE, True, False, False),
    ],
)
def test_answers_are_judged_by_the_rules(maze, label, answer, given_kept, valid, optimal) -> None:
    scores = score(maze[None], label[None], answer[None])
    assert [bool(found[0]) for found in scores] == [given_kept, valid, optimal]


def test_a_detour_is_valid_and_longer() -> None:
    maze = cells("S    ", " ### ", "     ", " ### ", "G    ")
    label = cells("S    ", "o### ", "o    ", "o### ", "G    ")
    detour = cells("Soooo", " ###o", "ooooo", "o### ", "G    ")
    assert [bool(found[0]) for found in score(maze[None], label[None], detour[None])] == [True, True, False]


def test_an_end_beside_the_start_needs_no_mark() -> None:
    maze = cells("SG   ", *["     "] * 4)
    assert [bool(found[0]) for found in score(maze[None], maze[None], maze[None])] == [True, True, True]


def test_labels_and_other_shortest_paths_of_generated_mazes_are_right(layout: Layout) -> None:
    build_dataset(request(), layout)
    dataset = open_dataset("mazes", layout, "train")
    batch = dataset.read(np.arange(len(dataset)))
    inputs, labels = (batch[name].astype(np.uint8) for name in ("inputs", "labels"))
    assert all(found.all() for found in score(inputs, labels, labels))
    turned = inputs.reshape(-1, 5, 5)[:, ::-1, ::-1].reshape(-1, 25)  # the rule's order is reversed
    ruled = label_mazes(np.ascontiguousarray(turned), 5, 5).labels
    others = np.ascontiguousarray(ruled.reshape(-1, 5, 5)[:, ::-1, ::-1].reshape(-1, 25))
    assert all(found.all() for found in score(inputs, labels, others))


def score(inputs: np.ndarray, labels: np.ndarray, answers: np.ndarray) -> list[np.ndarray]:
    spec = SimpleNamespace(options=OPTIONS)
    found = MazeKind().score(spec, inputs, labels, answers)
    return [found.given_kept, found.valid, found.optimal]


def test_smaller_sets_are_the_beginning_of_larger_ones(layout: Layout) -> None:
    build_dataset(request(name="large"), layout)
    build_dataset(request(name="part", size=5, aug=3), layout)
    query = "SELECT canonical_hash FROM puzzles WHERE split = 'train' AND dataset = '{}' ORDER BY group_index"
    large, part = (query_catalog(layout, query.format(name)).rows for name in ("large", "part"))
    assert part == large[:5]
    images = (
        "SELECT group_index, augmentation, dihedral FROM augmentations WHERE split = 'train' AND dataset = '{}' "
        "AND group_index < 5 AND augmentation <= 3 ORDER BY ALL"
    )
    more, fewer = (query_catalog(layout, images.format(name)).rows for name in ("large", "part"))
    assert fewer == more


def test_a_dihedral_of_the_catalog_undoes_its_row(layout: Layout) -> None:
    from trm_data.symmetry.dihedral import Dihedral

    build_dataset(request(), layout)
    dataset = open_dataset("mazes", layout.machine)
    inputs = dataset.read(np.arange(len(dataset)))["inputs"]
    found = query_catalog(
        layout,
        "SELECT group_index, dihedral FROM augmentations WHERE split = 'train' ORDER BY group_index, augmentation",
    ).rows
    for row, (group, dihedral) in enumerate(found):
        original = inputs[dataset.groups.first_rows[group]].reshape(5, 5)
        image = inputs[row].reshape(5, 5)
        np.testing.assert_array_equal(Dihedral(dihedral).inverse().apply(image), original)
    assert len({dihedral for _, dihedral in found}) == 8


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("x,S   G,,", r"mazes.csv:2: .*expected 25 characters, got 5"),
        (f"x,{'S' * 2 + ' ' * 22 + 'G'},,", r"mazes.csv:2: .*S"),
        (f"x,{'S#' + ' ' * 3 + '##' + ' ' * 17 + 'G'},,", r"mazes.csv:2: there is no path from S to G"),
        (f"x,{'S  G' + ' ' * 21},{'SooG'},", r"mazes.csv:2: answer: expected 25 characters, got 4"),
        (f"x,{'S  G' + ' ' * 21},{'So G' + ' ' * 21},", r"mazes.csv:2: the marked cells are no path"),
    ],
)
def test_bad_rows_are_named(tmp_path, layout: Layout, row: str, message: str) -> None:
    with pytest.raises(BadRowError, match=message):
        build_dataset(csv_request(tmp_path, [row]), layout)
    skipped = csv_request(tmp_path, [row, f"x,{'S ##G' + ' ' * 20},,"], size=1, on_bad_row="skip")
    assert build_dataset(skipped, layout).rejects == 1


def test_a_label_that_is_longer_than_the_shortest_path(tmp_path, layout: Layout) -> None:
    question = "S  G" + " " * 21
    around = list(question)
    for cell in (5, 6, 7, 8):
        around[cell] = "o"
    with pytest.raises(BadRowError, match="the marked path has 5 steps, a shortest one has 3"):
        build_dataset(csv_request(tmp_path, [f"x,{question},{''.join(around)},"]), layout)


def test_longer_paths_are_kept_where_labels_are_given(tmp_path, layout: Layout) -> None:
    question, label = "S  G" + " " * 21, "S  G oooo" + " " * 16
    rows = [f"x,{question},{label},", f"y,{'S    G' + ' ' * 19},{'So   Go' + ' ' * 18},"]
    options = MazeOptions(rows=5, columns=5, labels="given")
    made = csv_request(tmp_path, rows[:1], options=options, size=1, aug=7, name="given")
    build_dataset(made, layout)
    dataset = open_dataset("given", layout, "train")
    batch = dataset.read(np.arange(8))
    counts = [(row == 5).sum() for row in batch["labels"]]
    assert counts == [4] * 8
    assert query_catalog(layout, "SELECT path_length FROM puzzles").rows == [(5,)]
    assert verify_dataset(layout, "given").problems == []
    spec = dataset.manifest.spec
    assert "--labels given" in options.build_command("given", spec)
    scores = MazeKind().score(spec, batch["inputs"], batch["labels"], batch["labels"])
    assert scores.valid is not None
    assert scores.optimal is not None
    assert scores.valid.all()
    assert scores.optimal.all()
    stray = csv_request(tmp_path, rows[1:], options=options, size=1, name="stray")
    with pytest.raises(BadRowError, match="2 cells are marked, but the way through them"):
        build_dataset(stray, layout)


def test_another_shortest_path_than_the_rules_is_kept(tmp_path, layout: Layout) -> None:
    question = "S " + " " * 4 + "G" + " " * 18  # S at (0, 0), G at (1, 1): two shortest paths
    labels = ["S " + " " * 3 + "oG" + " " * 18, "So" + " " * 4 + "G" + " " * 18]
    for number, label in enumerate(labels):
        made = csv_request(tmp_path, [f"x,{question},{label},"], name=f"maze{number}")
        build_dataset(made, layout)
        assert verify_dataset(layout, f"maze{number}").problems == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"aug": 8}, "--aug 8: a 5x5 maze has 7"),
        ({"options": MazeOptions(rows=5, columns=4, min_path=3), "aug": 4}, "--aug 4: a 5x4 maze has 3"),
        (
            {"options": MazeOptions(rows=8, columns=8, min_path=44)},
            "--min-path 44: expected 1 to 43 steps in 8x8 cells",
        ),
        ({"options": MazeOptions(rows=5, columns=5, min_path=3, wall_low=0.9, wall_high=0.2)}, "wall"),
    ],
)
def test_options_that_cannot_be(layout: Layout, changes: dict, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        build_dataset(request(**changes), layout)


def test_the_published_file(shared_data, layout: Layout) -> None:
    path = shared_data / "maze" / "maze_30x30_hard_1k_train.csv"
    source = parse_source(f"csv:{path}", allowed=("csv",))
    made = request(source=source, size=1000, val_size=0, test_size=0, options=MazeOptions())
    manifest = build_dataset(made, layout).manifest
    assert manifest.splits["train"].num_examples == 8000
    found = verify_dataset(layout, "mazes")
    assert found.problems == []
    assert found.counts["originals labelled by the published rule"] == 1000
