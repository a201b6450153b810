"""A build that does not fit into memory gives the files of one that does."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trm_data.augment.sudoku import SudokuAugmenter
from trm_data.build.flow import BuildResult, build_dataset
from trm_data.catalog import tables
from trm_data.encode.grid import encode_grid
from trm_data.engine.local import LocalEngine
from trm_data.errors import BadRowError, BuildError, SpecError
from trm_data.generate.sudoku import generate
from trm_data.kinds import choosing, chosen, classes, parted, sizes
from trm_data.kinds.maze.fields import BuildMaze
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.request import BuildRequest
from trm_data.shards.naming import sidecar_name
from trm_data.sources.base import parse_source
from trm_data.storage.root import Layout, resolve_root
from trm_data.verify.flow import verify_dataset

Make = Callable[..., BuildRequest]

TINY = {
    classes: {"NEWEST": 20, "PIECE": 16, "GAP": 2, "RUNS_OF_A_SIZE": 2, "PREFIX_BITS": 6},
    chosen: {"PART_BYTES": 5_000},
    choosing: {"ASKED_BYTES": 5_000, "MOST_ASKED": 16},
    tables: {"PART_ROWS": 50},
}
KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from conftest import small_request
from trm_data.build import flow
from trm_data.kinds import chosen, classes
from trm_data.storage.root import resolve_root
classes.NEWEST, chosen.PART_BYTES = 20, 10_000
written = flow.write_job
def told(job):
    shard = written(job)
    print(job.file, flush=True)
    sys.stdin.readline()
    return shard
flow.write_job = told
flow.build_dataset(small_request(size=200, name="killed"), resolve_root(Path(sys.argv[1])), shard_examples=300)
"""


@pytest.fixture
def spilled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Memory for next to nothing. Says afterwards how many parts were put on the disk."""
    for module, values in TINY.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    parts: list[int] = []
    append = parted.GroupsInParts.append

    def counted(self, groups) -> None:
        parts.append(len(groups))
        append(self, groups)

    monkeypatch.setattr(parted.GroupsInParts, "append", counted)
    return parts


def files(result: BuildResult) -> dict[str, str]:
    """The sha256 of all files that do not say when they were written, and the digest of the rows."""
    manifest = result.manifest
    found = {shard.file: shard.sha256 for split in manifest.splits.values() for shard in split.shards}
    found |= {file.file: file.sha256 for file in manifest.catalog if "datasets" not in file.file}
    sidecars = {sidecar_name(name) for name in found if name.endswith("array_record")}
    found |= {name: (result.folder / name).read_text() for name in sidecars}
    return {**found, "content": manifest.content_digest}


def equivalent_rows(tmp_path: Path) -> str:
    """A file of 120 puzzles, every fourth an image of another: far from it in the order in which they are taken."""
    puzzles, solutions = generate(7, 0, 0, 90, 2, 3)
    rows = [(puzzle, solution) for puzzle, solution in zip(puzzles, solutions, strict=True)]
    some, zeros = np.arange(30, dtype=np.int64), np.zeros(30, np.int64)
    images, answers = np.empty((30, 36), np.uint8), np.empty((30, 36), np.uint8)
    SudokuAugmenter(puzzles, solutions, np.arange(90), 1, 2, 3).fill(some, some + 1, zeros, images, answers)
    rows += [(puzzle - 1, solution - 1) for puzzle, solution in zip(images, answers, strict=True)]
    lines = [f"{encode_grid(puzzle)},{encode_grid(solution)}" for puzzle, solution in rows]
    path = tmp_path / "equivalent.csv"
    path.write_text("\n".join(["question,answer", *lines]) + "\n")
    return f"csv:{path}"


CASES: dict[str, dict] = {
    "stored": {"size": 120, "aug": 9},
    "virtual": {"size": 300, "augment": "virtual"},
    "plain rows": {"size": 120, "aug": 0},
    "bins": {
        "size": 70,
        "aug": 3,
        "options": SudokuOptions(box_rows=2, box_columns=3, rating_bins=(0, 1)),
    },
    "held out": {"size": 10, "val_size": 150, "test_size": 120},
    "all of a file": {"source": "file", "size": None, "val_size": 20, "test_size": 20, "on_bad_row": "skip"},
    "some of a file": {"source": "file", "size": 30, "val_size": 10, "test_size": 10, "on_bad_row": "skip"},
    "mazes": {"maze": True},
}


@pytest.mark.parametrize("case", CASES)
def test_the_files_are_the_same(
    tmp_path: Path,
    request_small: Make,
    case: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = dict(CASES[case])
    if options.pop("maze", False):
        asked = BuildMaze(grid="6x6", size=80, aug=7, val_size=9, test_size=20, name="small").request()
    else:
        if options.get("source") == "file":
            options["source"] = parse_source(equivalent_rows(tmp_path))
        asked = request_small(**options)
    expected = build_dataset(asked, resolve_root(tmp_path / "in memory"), shard_examples=200)
    parts = request.getfixturevalue("spilled")
    monkeypatch.setattr(sizes, "BRIEF_ROWS", 0)  # so that groups go to other processes
    layout = resolve_root(tmp_path / "on the disk")
    found = build_dataset(asked, layout, shard_examples=200, engine=LocalEngine(2))
    assert len(parts) > 1
    assert files(found) == files(expected)
    assert found.rejects == expected.rejects
    assert (found.rejects > 0) == ("file" in case)
    assert verify_dataset(layout, "small").problems == []
    assert [path for path in layout.machine.rglob("*") if ".tmp" in path.name or "spill" in path.name] == []
    assert build_dataset(asked, layout, shard_examples=200).unchanged
    # Without its manifest all shards are found again, and kept.
    (found.folder / "manifest.json").unlink()
    again = build_dataset(asked, layout, shard_examples=200)
    assert (again.shards_written, files(again)) == (0, files(expected))


def test_messages_name_the_holder(
    tmp_path: Path, request_small: Make, request: pytest.FixtureRequest
) -> None:
    source = parse_source(equivalent_rows(tmp_path))
    asked = request_small(source=source, size=90, val_size=0, test_size=0)
    messages: list[str] = []
    for root in ("in memory", "on the disk"):
        with pytest.raises(BadRowError, match="equivalent under symmetry to") as stopped:
            build_dataset(asked, resolve_root(tmp_path / root))
        with pytest.raises(SpecError, match="only 90 usable, inequivalent") as too_few:
            build_dataset(
                dataclasses.replace(asked, size=91, on_bad_row="skip"), resolve_root(tmp_path / root)
            )
        messages += [str(stopped.value), str(too_few.value)]
        request.getfixturevalue("spilled")
    assert messages[:2] == messages[2:]


def test_a_killed_build_leaves_nothing_and_is_gone_on_with(
    tmp_path: Path, request_small: Make, spilled: list[int]
) -> None:
    asked = request_small(size=200, name="killed")
    expected = build_dataset(asked, resolve_root(tmp_path / "whole"), shard_examples=300)
    layout = resolve_root(tmp_path / "root")
    program = KILLED.format(tests=str(Path(__file__).resolve().parents[2]))
    with subprocess.Popen(
        [sys.executable, "-c", program, str(layout.machine)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(3):
            assert process.stdout.readline().endswith(".array_record\n")
            process.stdin.write("\n")
            process.stdin.flush()
        process.kill()
    assert layout.dataset_names() == []
    assert list(layout.generated.iterdir()) == []
    found = build_dataset(asked, layout, shard_examples=300)
    assert found.shards_kept >= 3
    assert files(found) == files(expected)
    assert list(layout.generated.iterdir()) == []


@pytest.mark.usefixtures("spilled")
def test_a_sidecar_that_is_changed_before_the_end_is_named(
    tmp_path: Path, request_small: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not kept in memory is not believed when it is read again."""
    from trm_data.build import finish

    layout: Layout = resolve_root(tmp_path)
    began = finish.digests_of

    def changed(job, written) -> bytes:
        path = job.folder.here / sidecar_name(job.file)
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "group_digests": content["group_digests"][::-1]}))
        return began(job, written)

    monkeypatch.setattr(finish, "digests_of", changed)
    with pytest.raises(BuildError, match="is not what was written"):
        build_dataset(request_small(size=200), layout, shard_examples=300)
    assert layout.dataset_names() == []
