"""Files damaged in any way are named or make no difference; none is believed."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.harness.figures import record
from tests.trm_eval.conftest import Evaluated, evaluated
from tests.trm_train.test_loop import TINY
from trm_data.catalog.query import query_catalog
from trm_data.errors import CorruptDatasetError, CorruptFileError, DataError
from trm_data.loader.dataset import open_dataset
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout, resolve_root
from trm_data.verify.flow import verify_dataset
from trm_eval.tables.query import query_results
from trm_train.checkpoint.manager import Checkpoints, fingerprints, restore_weights
from trm_train.checkpoint.tree import state_tree, weights_tree
from trm_train.errors import TrainError
from trm_train.run.record import read_record
from trm_train.state import init_state

__all__ = ["evaluated"]

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
    """Files that belong together, and how to tell whether damage to one of them is seen.

    Attributes:
        files: The files.
        judge: Says whether damage to a file is "named" or "harmless"; raises where it is believed.
    """

    files: list[Path]
    judge: Callable[[list[Path], str], str]


def harm(path: Path, others: list[Path], kind: str, draws: random.Random) -> list[Path]:
    """Damage a file as nothing but its content tells: size, and time where it can be, are kept. Files that changed."""
    data = bytearray(path.read_bytes())
    place = draws.randrange(len(data)) if data else 0
    if kind == "delete":
        path.unlink()
        return [path]
    if kind == "swap":
        other = draws.choice([other for other in others if other.read_bytes() != data] or [path])
        kept = other.read_bytes()
        other.write_bytes(data)
        path.write_bytes(kept)
        return [path, other]
    if kind == "cut":
        data = data[:place]
    elif data and kind == "flip":
        data[place] ^= 1 << draws.randrange(8)
    elif data:
        data[place] = (data[place] + draws.randrange(1, 256)) % 256
    path.write_bytes(data)
    return [path]


def names(changed: list[Path], problems: list[str]) -> bool:
    """Whether what is said names one of the files."""
    return any(path.name in line for path in changed for line in problems)


def dataset_subject(layout: Layout) -> Subject:
    """Shards, catalog tables, manifest, card and sidecars of a dataset."""
    folder = layout.dataset("small").here
    manifest = read_manifest(layout, "small")
    rows = {split: open_dataset("small", layout, split).read(np.arange(8)) for split in manifest.splits}

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
            found = open_dataset("small", layout, split).read(np.arange(8))
            assert all(np.array_equal(found[name], expected[name]) for name in expected), changed
        return "harmless"

    return Subject(sorted(path for path in folder.rglob("*") if path.is_file()), judge)


def index_subject(layout: Layout) -> Subject:
    """The SQL index."""
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
    """Result tables and metric parts."""
    root = Path(layout.place)
    whole = [query_results(layout, query).rows for query in QUERIES]

    def judge(changed: list[Path], kind: str) -> str:
        named = gone = False
        for query, expected in zip(QUERIES, whole, strict=True):
            try:
                found = query_results(layout, query)
                # An evaluation whose row is deleted is one that was never made; its predictions are not shown.
                gone = kind == "delete" and "evals" in changed[0].parts and found.rows == []
                assert found.rows == expected or found.problems or gone, (changed, query)
                named |= bool(found.problems)
            except CorruptFileError as error:
                named = kind == "delete" or names(changed, [str(error)])
        return "named" if named else "harmless"

    files = [*root.glob("results/**/*.parquet"), *root.glob("runs/**/metrics/*.parquet")]
    return Subject(sorted(files), judge)


def checkpoint_subject(layout: Layout, run: Evaluated) -> Subject:
    """Every file of the newest resume checkpoint and of the newest weights."""
    spec = run.record.input_spec
    state = init_state(TINY, spec, TINY.data.global_batch_size)[1]
    folder = layout.runs.within(run.folder.path.removeprefix("runs/"))
    whole: dict[int, Any] = {}
    for step in (8, 12):
        kept = fingerprints(restore_weights(folder, step, weights_tree(state))[0])
        whole[step] = kept

    def resumed() -> tuple[int, Any, list[str]]:
        checkpoints = Checkpoints(folder)
        try:
            found = checkpoints.restore(state)
        finally:
            checkpoints.close()
        return found.meta.step, fingerprints(state_tree(found.state)), found.problems

    step, newest, problems = resumed()
    assert (step, problems) == (12, [])
    at_eight: dict[str, Any] = {}
    top = Path(folder.uri()) / "checkpoints"

    def judge(changed: list[Path], kind: str) -> str:
        if "weights" in changed[0].parts:
            try:
                found, meta = restore_weights(folder, 12, weights_tree(state))
            except TrainError:
                return "named"
            assert meta.step == 12
            assert fingerprints(found) == whole[12], changed
            return "harmless"
        step, found, problems = resumed()
        if step == 12:
            assert found == newest, changed
            return "harmless"
        assert step == 8
        assert at_eight.setdefault("state", found) == found
        assert (
            problems or not (top / "resume" / "12" / "_CHECKPOINT_METADATA").exists() or kind == "delete"
        ), changed
        return "named" if problems else "harmless"

    top = Path(folder.uri()) / "checkpoints"
    files = [
        path for kind in ("resume", "weights") for path in (top / kind / "12").rglob("*") if path.is_file()
    ]
    return Subject(sorted(files), judge)


def record_subject(layout: Layout, run: Evaluated) -> Subject:
    """What a run is."""
    folder = layout.runs.within(run.folder.path.removeprefix("runs/"))
    whole = read_record(folder)

    def judge(changed: list[Path], kind: str) -> str:
        try:
            found = read_record(folder)
        except (TrainError, CorruptDatasetError):
            return "named"
        assert found == whole, changed
        return "harmless"

    return Subject([Path(folder.uri("config.json"))], judge)


SHARES = {"dataset": 0.4, "index": 0.05, "tables": 0.3, "checkpoints": 0.2, "record": 0.05}
"""Of all cases, how many are of which subject."""


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # tensorstore's, of reads given up
@pytest.mark.parametrize("cases", [30, pytest.param(10_000, marks=pytest.mark.slow)])
def test_damage_is_named_or_harmless(evaluated: Evaluated, tmp_path: Path, cases: int) -> None:
    shutil.copytree(evaluated.layout.place, tmp_path / "root")
    layout = resolve_root(tmp_path / "root")
    query_catalog(layout, "SELECT 1")
    subjects = {
        "dataset": dataset_subject(layout),
        "index": index_subject(layout),
        "tables": table_subject(layout),
        "checkpoints": checkpoint_subject(layout, evaluated),
        "record": record_subject(layout, evaluated),
    }
    draws, counts = random.Random(cases), Counter[str]()
    for name, subject in subjects.items():
        for number in range(round(cases * SHARES[name])):
            path = subject.files[number % len(subject.files)]
            kind = HARMS[(number // len(subject.files) + number) % len(HARMS)]
            others = [other for other in subject.files if other != path]
            saved = {file: (file.read_bytes(), file.stat()) for file in [path, *others]}
            changed = harm(path, others, kind, draws)
            verdict = subject.judge(changed, kind)
            for file in {*changed, path}:
                file.write_bytes(saved[file][0])
                os.utime(file, ns=(saved[file][1].st_atime_ns, saved[file][1].st_mtime_ns))
            counts[verdict] += 1
            counts[f"{name} {verdict}"] += 1
    for name, subject in subjects.items():
        assert subject.judge([subject.files[0]], "none") == "harmless", name
        assert counts[f"{name} named"] + counts[f"{name} harmless"] > 0
    print(counts)
    record(
        "damage", {"cases": cases, "named": counts["named"], "harmless": counts["harmless"], "believed": 0}
    )
