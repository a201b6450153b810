"""Damaged files are named or harmless; none is trusted."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.harness.figures import record
from tests.trm_eval.conftest import Evaluated, trained
from tests.trm_train.test_loop import TINY
from trm_data.catalog.query import query_catalog
from trm_data.errors import CorruptFileError, DataError
from trm_data.loader.dataset import open_dataset
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout, resolve_root
from trm_data.verify.flow import verify_dataset
from trm_eval.tables.query import query_results
from trm_train.checkpoint.manager import Checkpoints, restore_weights
from trm_train.checkpoint.tree import state_tree, weights_tree
from trm_train.errors import TrainError
from trm_train.runs.record import read_record
from trm_train.runs.status import read_status
from trm_train.state import init_state

__all__ = ["trained"]

HARMS = ("flip", "change", "cut", "delete", "swap")
QUERIES = (
    "SELECT * FROM predictions ORDER BY row",
    "SELECT * EXCLUDE (heartbeat) FROM runs",
    "SELECT * FROM train_metrics ORDER BY step, split",
    "SELECT * FROM all_evals",
)
INDEX_QUERIES = tuple(
    f"SELECT * FROM {table} ORDER BY ALL" for table in ("puzzles", "splits", "datasets", "augmentations")
)


@dataclass(frozen=True)
class Subject:
    """Related files, and a check of whether damage to one of them is detected.

    Attributes:
        files: The files.
        judge: Returns "named" or "harmless" for a damaged file; raises if the damage is trusted.
    """

    files: list[Path]
    judge: Callable[[list[Path], str], str]


def harm(path: Path, others: list[Path], kind: str, draws: random.Random) -> list[Path]:
    """Damage a file so that, if possible, only its content shows it: times are kept. Return the changed files."""
    data, status = bytearray(path.read_bytes()), path.stat()
    place = draws.randrange(len(data)) if data else 0
    if kind == "delete":
        path.unlink()
        return [path]
    if kind == "swap":
        other = draws.choice([other for other in others if other.read_bytes() != data])
        kept, others_status = other.read_bytes(), other.stat()
        other.write_bytes(data)
        path.write_bytes(kept)
        os.utime(other, ns=(others_status.st_atime_ns, others_status.st_mtime_ns))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return [path, other]
    if kind == "cut":
        data = data[:place]
    elif data and kind == "flip":
        data[place] ^= 1 << draws.randrange(8)
    elif data:
        data[place] = (data[place] + draws.randrange(1, 256)) % 256
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return [path]


def names(changed: list[Path], problems: list[str]) -> bool:
    """Return whether the problems name one of the files."""
    return any(path.name in line for path in changed for line in problems)


def named_in(error: Exception, what: str) -> str:
    """Return the verdict "named", after checking that the error names the damage."""
    assert what in str(error)
    return "named"


def dataset_subject(layout: Layout) -> Subject:
    """Return the subject of shards, catalog tables, manifest, card and sidecars of a dataset."""
    folder = layout.dataset("small").here
    manifest = read_manifest(layout, "small")
    sizes = {split: entry.num_examples for split, entry in manifest.splits.items()}
    rows = {
        split: open_dataset("small", layout, split).read(np.arange(size)) for split, size in sizes.items()
    }
    tables = [query_catalog(layout, query).rows for query in INDEX_QUERIES]

    def judge(changed: list[Path], kind: str) -> str:
        try:
            problems = verify_dataset(layout, "small").problems
        except DataError as error:
            problems = [str(error)]
        if problems:
            assert kind == "delete" or names(changed, problems), (changed, problems)
            return "named"
        assert read_manifest(layout, "small") == manifest
        for split, expected in rows.items():
            found = open_dataset("small", layout, split).read(np.arange(sizes[split]))
            assert all(np.array_equal(found[name], expected[name]) for name in expected), changed
        layout.catalog.unlink()
        assert [query_catalog(layout, query).rows for query in INDEX_QUERIES] == tables, changed
        return "harmless"

    return Subject(sorted(path for path in folder.rglob("*") if path.is_file()), judge)


def index_subject(layout: Layout) -> Subject:
    """Return the subject of the SQL index."""
    whole = [query_catalog(layout, query).rows for query in INDEX_QUERIES]

    def judge(changed: list[Path], kind: str) -> str:
        named = False
        for query, expected in zip(INDEX_QUERIES, whole, strict=True):
            try:
                found = query_catalog(layout, query)
                assert found.rows == expected or found.problems, (changed, query)
                named |= bool(found.problems)
            except DataError:
                named = True
        return "named" if named else "harmless"

    return Subject([layout.catalog], judge)


def table_subject(layout: Layout) -> Subject:
    """Return the subject of result tables and metric parts."""
    root = Path(layout.place)
    whole = [query_results(layout, query).rows for query in QUERIES]

    def judge(changed: list[Path], kind: str) -> str:
        named = False
        for query, expected in zip(QUERIES, whole, strict=True):
            problems: list[str] = []
            try:
                found = query_results(layout, query, verify=True)  # file times do not show this damage
                problems = list(found.problems)
                # An evaluation without its row counts as never made; its predictions are not shown.
                gone = kind == "delete" and "evals" in changed[0].parts and found.rows == []
                assert found.rows == expected or problems or gone, (changed, query)
            except CorruptFileError as error:
                problems = [str(error)]
            # For a missing metric part only its steps can be named, because nothing else is known of it.
            assert not problems or names([*changed, *(path.parent for path in changed)], problems), (
                changed,
                problems,
            )
            named |= bool(problems)
        return "named" if named else "harmless"

    files = [*root.glob("results/**/*.parquet"), *root.glob("runs/**/metrics/*.parquet")]
    return Subject(sorted(files), judge)


def checkpoint_subject(layout: Layout, run: Evaluated) -> Subject:
    """Return the subject of the newest resume checkpoint and weights; restored values are compared as bytes."""
    state = init_state(TINY, run.record.input_spec, TINY.data.global_batch_size)[1]
    folder = layout.runs.within(run.folder.path.removeprefix("runs/"))
    top = Path(folder.uri()) / "checkpoints"

    def weights(step: int) -> list[bytes]:
        found, meta = restore_weights(folder, step, weights_tree(state))
        assert meta.step == step
        return as_bytes(found)

    def resumed() -> tuple[int, list[bytes], list[str]]:
        checkpoints = Checkpoints(folder)
        try:
            found = checkpoints.restore(state)
        finally:
            checkpoints.close()
        return found.meta.step, as_bytes(state_tree(found.state)), found.problems

    expected = {12: resumed()[1]}
    (top / "resume" / "12").rename(top / "away")
    expected[8] = resumed()[1]
    (top / "away").rename(top / "resume" / "12")
    assert expected[8] != expected[12]
    newest = weights(12)

    def judge(changed: list[Path], kind: str) -> str:
        verdicts: set[str] = set()
        if any("weights" in path.parts for path in changed):
            try:
                assert weights(12) == newest, changed
                verdicts.add("harmless")
            except TrainError as error:
                verdicts.add(named_in(error, "12"))
        if any("resume" in path.parts for path in changed):
            step, found, problems = resumed()
            assert found == expected[step], changed
            assert step == 12 or any("resume/12" in line for line in problems), (changed, problems)
            verdicts.add("named" if problems else "harmless")
        return "named" if "named" in verdicts else "harmless"

    files = [
        path for kind in ("resume", "weights") for path in (top / kind / "12").rglob("*") if path.is_file()
    ]
    return Subject(sorted(files), judge)


def as_bytes(tree: Any) -> list[bytes]:
    """Return the bytes of every leaf."""
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


def record_subject(layout: Layout, run: Evaluated) -> Subject:
    """Return the subject of a run's record and status."""
    folder = layout.runs.within(run.folder.path.removeprefix("runs/"))
    whole, status = read_record(folder), read_status(folder)
    assert status is not None

    def judge(changed: list[Path], kind: str) -> str:
        verdict = "harmless"
        try:
            assert read_record(folder) == whole, changed
        except TrainError as error:
            verdict = named_in(error, "config.json")
        assert read_status(folder) in (status, None), changed  # without a status file, the status is unknown
        return verdict

    return Subject([Path(folder.uri(name)) for name in ("config.json", "status.json")], judge)


CASES = int(os.environ.get("TRM_DAMAGE_CASES", "10000"))
SHARES = {"dataset": 0.4, "index": 0.05, "tables": 0.3, "checkpoints": 0.2, "record": 0.05}
"""Share of each subject among all cases."""


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # from tensorstore, about cancelled reads
@pytest.mark.parametrize("cases", [30, pytest.param(CASES, marks=pytest.mark.slow)])
def test_damage_is_named_or_harmless(trained: Evaluated, tmp_path: Path, cases: int) -> None:
    shutil.copytree(trained.layout.place, tmp_path / "root")
    layout = resolve_root(tmp_path / "root")
    query_catalog(layout, "SELECT 1")
    subjects = {
        "dataset": dataset_subject(layout),
        "index": index_subject(layout),
        "tables": table_subject(layout),
        "checkpoints": checkpoint_subject(layout, trained),
        "record": record_subject(layout, trained),
    }
    draws, counts = random.Random(cases), Counter[str]()
    for name, subject in subjects.items():
        kinds = [kind for kind in HARMS if kind != "swap" or len(subject.files) > 1]
        pairs = [(path, kind) for path in subject.files for kind in kinds]
        draws.shuffle(pairs)
        for number in range(round(cases * SHARES[name])):
            path, kind = pairs[number % len(pairs)]
            saved = {file: (file.read_bytes(), file.stat()) for file in subject.files}
            changed = harm(path, [other for other in subject.files if other != path], kind, draws)
            verdict = subject.judge(changed, kind)
            for file in changed:
                file.write_bytes(saved[file][0])
                os.utime(file, ns=(saved[file][1].st_atime_ns, saved[file][1].st_mtime_ns))
            counts[verdict] += 1
            counts[f"{name} {verdict}"] += 1
    for name, subject in subjects.items():
        assert subject.judge([subject.files[0]], "none") == "harmless", name
        assert counts[f"{name} named"] > 0 or name == "index" or cases < 1000, name
    print(counts)
    record(
        "damage", {"cases": cases, "named": counts["named"], "harmless": counts["harmless"], "believed": 0}
    )
