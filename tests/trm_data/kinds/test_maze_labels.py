"""Labels of augmented mazes: the published rule, the moved path, or any given path; and mazes with one path."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from trm_data.building.flow import build_dataset
from trm_data.catalog.query import query_catalog
from trm_data.engine.local import LocalEngine
from trm_data.errors import BadRowError, SpecError
from trm_data.export import export_dataset
from trm_data.kinds.imported.options import import_request
from trm_data.kinds.maze.generate import generate_unique_mazes
from trm_data.kinds.maze.kind import Relabelled
from trm_data.kinds.maze.options import MazeOptions
from trm_data.kinds.maze.solve import count_shortest_paths, label_mazes
from trm_data.kinds.registry import make_fields
from trm_data.loader.dataset import open_dataset
from trm_data.named import named_datasets
from trm_data.sources.base import SourceRef, parse_source
from trm_data.specs import BuildRequest, SourceSpec
from trm_data.storage.root import Layout, resolve_root
from trm_data.verify.flow import verify_dataset

DIGEST_BEFORE = "ced4ff24b2f3c5e8957c15a91e458c70db297a4bc596b2518ee8a0b46fbe7a6f"
"""Digest of the specification of `OPTIONS` with moved labels, from the version that had no other labels."""
OPTIONS = MazeOptions(rows=6, columns=6, min_path=6, labels="rule")


@pytest.fixture
def layout(tmp_path) -> Layout:
    return resolve_root(tmp_path / "root")


def request(**changes) -> BuildRequest:
    fields = {
        "size": 20,
        "aug": 7,
        "val_size": 3,
        "test_size": 4,
        "name": "mazes",
        "options": OPTIONS,
        **changes,
    }
    return BuildRequest(kind="maze", source=fields.pop("source", SourceRef("generated")), **fields)


def rows_of(layout: Layout, name: str) -> tuple[np.ndarray, np.ndarray]:
    dataset = open_dataset(name, layout, "train")
    batch = dataset.read(np.arange(len(dataset)))
    return batch["inputs"].astype(np.uint8), batch["labels"].astype(np.uint8)


def ruled(inputs: np.ndarray) -> np.ndarray:
    return label_mazes(inputs, 6, 6).labels


def test_by_the_rule_every_image_is_labelled_and_moved_labels_are_others(layout: Layout) -> None:
    build_dataset(request(), layout)
    build_dataset(request(name="moved", options=dataclasses.replace(OPTIONS, labels="moved")), layout)
    inputs, labels = rows_of(layout, "mazes")
    same, moved = rows_of(layout, "moved")
    np.testing.assert_array_equal(inputs, same)
    np.testing.assert_array_equal(labels, ruled(inputs))
    kept = (moved == labels).all(axis=1)
    assert kept[::8].all()  # the originals
    assert 0.1 < kept.mean() < 0.8
    assert verify_dataset(layout, "mazes").problems == verify_dataset(layout, "moved").problems == []


def test_a_virtual_dataset_has_the_rows_of_the_stored_one(layout: Layout) -> None:
    stored = build_dataset(request(), layout).manifest
    build_dataset(request(name="virtual", augment="virtual"), layout)
    for one, other in zip(rows_of(layout, "mazes"), rows_of(layout, "virtual"), strict=True):
        np.testing.assert_array_equal(one, other)
    assert verify_dataset(layout, "virtual").problems == []
    assert stored.spec.options.labels == "rule"


def test_verify_finds_labels_that_are_not_the_rules(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates a build that moved the labels."""
    monkeypatch.setattr(Relabelled, "fill", lambda self, *slots: self._moved.fill(*slots))
    engine = LocalEngine(workers=1)
    build_dataset(request(), layout, engine=engine)
    monkeypatch.undo()
    problems = verify_dataset(layout, "mazes").problems
    assert any("is not its original under its augmentation" in problem for problem in problems)


def test_specifications_of_earlier_versions_mean_moved_labels() -> None:
    old = {**dataclasses.asdict(OPTIONS), "labels": "shortest"}
    del old["unique"]
    assert MazeOptions.from_json(old) == dataclasses.replace(OPTIONS, labels="moved")
    spec = request(options=dataclasses.replace(OPTIONS, labels="moved")).spec(
        SourceSpec(kind="generated"), None
    )
    assert spec.digest() == DIGEST_BEFORE


def test_the_ten_named_sets_of_moved_labels_are_those_of_before() -> None:
    moved = [name for name in named_datasets() if name.startswith("maze-") and name.endswith("-aug-7")]
    assert len(moved) == 10
    assert {named_datasets()[name].request().options.labels for name in moved} == {"moved"}
    ruled = {name for name in named_datasets() if name.endswith("-rule")}
    assert {named_datasets()[name].request().options.labels for name in ruled} == {"rule"}
    assert len(ruled) == 9


@pytest.mark.parametrize(
    ("fields", "labels", "name"),
    [
        ({"aug": 8}, "rule", "maze-30x30-generated-1000-aug-7-rule"),
        ({"aug": 0}, "moved", "maze-30x30-generated-1000-aug-0"),
        ({"aug": 8, "labels": "moved"}, "moved", "maze-30x30-generated-1000-aug-7"),
        (
            {"aug": 1, "augment": "virtual", "seed": 3},
            "rule",
            "maze-30x30-generated-1000-aug-1-rule-seed-3-virtual",
        ),
        ({"unique": True}, "moved", "maze-30x30-generated-1000-aug-0-unique"),
        ({"grid": "8x8", "min_path": 14}, "moved", "maze-8x8-generated-1000-aug-0-min-path-14"),
    ],
)
def test_builds_with_augmentation_follow_the_rule_unless_asked(fields: dict, labels: str, name: str) -> None:
    asked = make_fields("maze", fields).request()
    assert (asked.options.labels, asked.dataset_name()) == (labels, name)


def csv(tmp_path, *rows: str) -> SourceRef:
    path = tmp_path / "mazes.csv"
    path.write_text("source,question,answer,rating\n" + "\n".join(f"x,{row}," for row in rows) + "\n")
    return parse_source(f"csv:{path}", allowed=("csv",))


QUESTION = "S " + " " * 4 + "G" + " " * 18
BY_THE_RULE, ANOTHER = "S " + " " * 3 + "oG" + " " * 18, "So" + " " * 4 + "G" + " " * 18


def test_an_original_with_another_path_is_refused_with_the_way_out(tmp_path, layout: Layout) -> None:
    options = MazeOptions(rows=5, columns=5, labels="rule")
    fields = {"size": 1, "val_size": 0, "test_size": 0}
    build_dataset(
        request(source=csv(tmp_path, f"{QUESTION},{BY_THE_RULE}"), options=options, **fields), layout
    )
    other = csv(tmp_path, f"{QUESTION},{ANOTHER}")
    with pytest.raises(BadRowError, match=r"mazes\.csv:2: .*--labels moved keeps it"):
        build_dataset(request(source=other, options=options, name="other", **fields), layout)
    moved = dataclasses.replace(options, labels="moved")
    build_dataset(request(source=other, options=moved, name="other", **fields), layout)
    assert verify_dataset(layout, "other").problems == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"unique": True, "walls": "0.3-0.4"}, "--unique with --walls 0.3-0.4"),
        ({"unique": True, "source": "csv:x.csv"}, "--unique with --source csv:x.csv"),
        ({"labels": "given"}, "--labels given: only for mazes of a file; expected rule, moved"),
    ],
)
def test_options_that_exclude_each_other(fields: dict, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        make_fields("maze", fields).request()


@pytest.mark.parametrize(("rows", "columns", "least"), [(3, 3, 4), (5, 8, 12), (8, 8, 14), (9, 9, 20)])
def test_perfect_mazes_have_one_path_as_long_as_asked(rows: int, columns: int, least: int) -> None:
    mazes = generate_unique_mazes(5, 0, 0, 30, rows, columns, least)
    paths, forced = count_shortest_paths(mazes, rows, columns)
    assert (paths == 1).all()
    assert (forced == 1).all()
    assert (label_mazes(mazes, rows, columns).path_steps >= least).all()
    free = (mazes != 1).reshape(-1, rows, columns)
    passages = (free[:, 1:] & free[:, :-1]).sum((1, 2)) + (free[:, :, 1:] & free[:, :, :-1]).sum((1, 2))
    np.testing.assert_array_equal(passages, free.sum((1, 2)) - 1)  # a tree
    rooms = ((rows + 1) // 2) * ((columns + 1) // 2)
    np.testing.assert_array_equal(free.sum((1, 2)), 2 * rooms - 1)  # of all rooms
    np.testing.assert_array_equal(mazes[7:9], generate_unique_mazes(5, 0, 7, 2, rows, columns, least))


def test_spanning_trees_are_drawn_uniformly() -> None:
    """3x3 rooms in 5x5 cells have 192 spanning trees; each should occur 52 times in 10,000."""
    mazes = generate_unique_mazes(1, 0, 0, 10_000, 5, 5, 1)
    layouts = np.where(mazes == 1, 0, 1).astype(np.uint8)
    _, counts = np.unique(layouts, axis=0, return_counts=True)
    assert len(counts) == 192
    chi_square = ((counts - 10_000 / 192) ** 2 / (10_000 / 192)).sum()
    assert chi_square < 260  # 191 degrees of freedom; 0.1% lie beyond 260


def test_a_path_longer_than_a_perfect_maze_can_have(layout: Layout) -> None:
    options = MazeOptions(rows=5, columns=5, min_path=17, unique=True)
    with pytest.raises(SpecError, match="--min-path 17: expected 1 to 16 steps in a perfect maze of 5x5"):
        build_dataset(request(options=options), layout)


def test_the_catalog_counts_shortest_paths(layout: Layout) -> None:
    build_dataset(request(), layout)
    inputs, _ = rows_of(layout, "mazes")
    paths, forced = count_shortest_paths(inputs[::8], 6, 6)
    found = np.array(
        query_catalog(
            layout,
            "SELECT log10_shortest_paths, forced_share FROM puzzles WHERE split = 'train' ORDER BY group_index",
        ).rows
    )
    np.testing.assert_allclose(found, np.stack([np.log10(paths), forced], axis=1), atol=1e-6)


def test_counts_of_shortest_paths_by_hand() -> None:
    from trm_data.kinds.maze.source import decode_maze

    crossroads = decode_maze("S   # " + " # #  " + "   ## " + "## ## " + "##   G" + "######", 6, 6)
    paths, forced = count_shortest_paths(crossroads[None], 6, 6)
    assert (paths[0], forced[0]) == (2, 5 / 8)  # two ways around the wall, then one way
    beside = decode_maze("SG  " + " " * 12, 4, 4)
    assert [float(value[0]) for value in count_shortest_paths(beside[None], 4, 4)] == [1, 1]
    apart = decode_maze("S#G " + "####" + " " * 8, 4, 4)
    assert [float(value[0]) for value in count_shortest_paths(apart[None], 4, 4)] == [0, 0]


def test_most_moved_labels_of_published_mazes_break_the_rule(shared_data) -> None:
    """REFERENCE: 13.4% of the moved labels match the rule; the median maze has 10^6.6 shortest paths."""
    from trm_data.kinds.maze.source import read_mazes
    from trm_data.sources.base import fetch_source
    from trm_data.symmetry.dihedral import source_cells

    with fetch_source(parse_source(f"csv:{shared_data / 'maze' / 'maze_30x30_hard_1k_train.csv'}")) as source:
        rows, _ = read_mazes(source, 30, 30)
    kept = [
        (label_mazes(rows.questions[:, cells], 30, 30).labels == rows.answers[:, cells]).all(axis=1).mean()
        for cells in (source_cells(dihedral, 30, 30) for dihedral in range(1, 8))
    ]
    assert np.mean(kept) == pytest.approx(0.134, abs=0.001)
    assert max(kept) == pytest.approx(0.931, abs=0.001)
    paths, forced = count_shortest_paths(rows.questions, 30, 30)
    assert np.median(np.log10(paths)) == pytest.approx(6.6, abs=0.05)
    assert forced.mean() == pytest.approx(0.69, abs=0.01)


@pytest.mark.parametrize("form", ["rule", "moved", "given"])
def test_an_import_records_how_rows_are_labelled(tmp_path, layout: Layout, form: str) -> None:
    if form == "given":
        detour = csv(tmp_path, f"{'S  G' + ' ' * 21},{'S  G oooo' + ' ' * 16}")
        options = MazeOptions(rows=5, columns=5, labels="given")
        build_dataset(request(source=detour, options=options, size=1, val_size=0, test_size=0), layout)
    else:
        build_dataset(request(options=dataclasses.replace(OPTIONS, labels=form)), layout)
    out = tmp_path / "published"
    export_dataset(layout, "mazes", out, form="npy")
    (out / "export.json").unlink(missing_ok=True)  # as in folders of the published code
    imported = build_dataset(import_request(str(out), "imported", "maze"), layout).manifest
    assert json.loads(imported.spec.options.of_options)["labels"] == form
    assert verify_dataset(layout, "imported").problems == []
