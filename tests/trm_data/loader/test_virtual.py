"""Virtual datasets: batches equal the stored ones bit for bit; disk and memory hold only base puzzles."""

import dataclasses
import json

import numpy as np
import pytest

import trm_data
from trm_data.building.flow import build_dataset
from trm_data.describe import read_example
from trm_data.kinds.arc.options import ArcOptions
from trm_data.kinds.maze.options import MazeOptions
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.sources.base import parse_source
from trm_data.specs import BuildRequest
from trm_data.storage.root import resolve_root
from trm_data.verify.flow import verify_dataset

TASKS = {
    "mirror": {  # symmetric under a left-right flip, so it has fewer distinct images
        "train": [
            {"input": [[1, 0, 1]], "output": [[0, 1, 0]]},
            {"input": [[2, 2, 2]], "output": [[2, 0, 2]]},
        ],
        "test": [{"input": [[3, 0, 3]], "output": [[0, 3, 0]]}],
    },
    "plain": {
        "train": [
            {"input": [[1, 2], [3, 4], [5, 6]], "output": [[7, 8, 9], [1, 1, 2]]},
            {"input": [[4]], "output": [[4, 5]]},
            {"input": [[6, 0, 0, 1]], "output": [[1, 0, 0, 6]]},
        ],
        "test": [{"input": [[9, 9, 1]], "output": [[1, 2, 3]]}, {"input": [[8, 2]], "output": [[2, 8]]}],
    },
}


def arc_request(folder, **changes) -> BuildRequest:
    """Return a request with two tasks; `plain` is the evaluation task."""
    for subset, names in (("training", ["mirror"]), ("evaluation", ["plain"])):
        (folder / subset).mkdir(exist_ok=True)
        for name in names:
            (folder / subset / f"{name}.json").write_text(json.dumps(TASKS[name]))
    request = BuildRequest(
        kind="arc",
        source=parse_source(f"repo:{folder}", allowed=("repo",)),
        aug=40,
        test_size=None,
        seed=5,
        options=ArcOptions(subsets=("training", "evaluation")),
        name="stored",
    )
    return dataclasses.replace(request, **changes)


def requests(kind: str, folder, request_small) -> BuildRequest:
    """Return requests with regular groups, with symmetric puzzles, or with several examples."""
    if kind == "arc":
        return arc_request(folder)
    if kind == "maze":
        options = MazeOptions(rows=5, columns=5, min_path=6)
        source = parse_source("generated")
        return BuildRequest(
            kind="maze", source=source, size=20, aug=7, test_size=4, options=options, name="stored"
        )
    box = {"sudoku 6x6": (2, 3), "sudoku 4x4": (2, 2), "sudoku 9x9": (3, 3)}[kind]
    options = SudokuOptions(box_rows=box[0], box_columns=box[1])
    few = {"size": 4, "aug": 400, "val_size": 0, "test_size": 2} if box == (2, 2) else {}
    return request_small(name="stored", options=options, **few)


@pytest.mark.parametrize("kind", ["sudoku 4x4", "sudoku 6x6", "sudoku 9x9", "maze", "arc"])
def test_virtual_batches_are_the_stored_ones(kind: str, tmp_path, request_small) -> None:
    layout = resolve_root(tmp_path / "root")
    request = requests(kind, tmp_path, request_small)
    stored = build_dataset(request, layout).manifest
    virtual = build_dataset(dataclasses.replace(request, augment="virtual", name="virtual"), layout).manifest
    assert verify_dataset(layout, "stored").problems == []
    assert verify_dataset(layout, "virtual").problems == []
    for split, entry in stored.splits.items():
        computed = virtual.splits[split]
        assert (computed.num_groups, computed.num_puzzles, computed.num_examples) == (
            entry.num_groups,
            entry.num_puzzles,
            entry.num_examples,
        )
        kept, made = (trm_data.open_dataset(name, layout.machine, split) for name in ("stored", "virtual"))
        rows = np.arange(len(kept))
        assert_same(kept.read(rows), made.read(rows))
        loaders = [trm_data.make_loader(dataset, global_batch_size=16, seed=11) for dataset in (kept, made)]
        for _ in range(50):
            assert_same(*map(next, loaders))
        for loader in loaders:
            loader.close()
    base = sum(shard.num_examples for shard in virtual.splits["train"].shards)
    assert base < stored.splits["train"].num_examples / 5
    assert virtual.num_identifiers == stored.num_identifiers
    assert virtual.identifiers_digest == stored.identifiers_digest
    drawn = [read_example(layout, name, "train", 7).to_json() for name in ("stored", "virtual")]
    assert drawn[0] == drawn[1]


def assert_same(left: dict, right: dict) -> None:
    for name in ("inputs", "labels", "puzzle_identifiers"):
        assert left[name].dtype == right[name].dtype
        np.testing.assert_array_equal(left[name], right[name])


def test_other_augmentations_are_another_content(tmp_path, request_small) -> None:
    """The base puzzles are equal; the rows that the loader makes differ."""
    layout = resolve_root(tmp_path)
    first = build_dataset(request_small(name="a", augment="virtual"), layout).manifest
    second = build_dataset(request_small(name="b", augment="virtual", aug=11), layout).manifest
    assert first.splits["train"].digest != second.splits["train"].digest
    assert first.splits["test"].digest == second.splits["test"].digest
    assert first.content_digest != second.content_digest
