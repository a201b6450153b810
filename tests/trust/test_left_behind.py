"""The next command removes the leftovers of killed processes, unless their writer may still be active."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.support.roots import root_with
from tests.trm_eval.conftest import Evaluated
from trm_data.building.flow import build_dataset
from trm_data.catalog.query import query_catalog
from trm_data.engine.local import LocalEngine
from trm_data.storage.atomic import LEFT_S, remove_temporary
from trm_data.storage.root import Layout, resolve_root
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest
from trm_train.runs.record import list_runs

LEFT = (".tmp-0a1b2c3d-77-catalog.duckdb", ".tmp-0a1b2c3d-77-catalog.duckdb.wal")


@pytest.fixture
def layout(small_layout: Layout, tmp_path: Path) -> Layout:
    return root_with("small", tmp_path / "root", small_layout)


def test_of_the_index(layout: Layout) -> None:
    root = Path(layout.place)
    for name in LEFT:
        (root / name).write_bytes(b"half")
    layout.catalog.unlink(missing_ok=True)
    query_catalog(layout, "FROM datasets")
    assert not list(root.glob(".tmp-*"))
    assert layout.catalog.is_file()


def test_of_a_build(layout: Layout, request_small) -> None:
    folder = layout.dataset("small").here
    (folder / "manifest.json").unlink()
    left = [
        folder / ".tmp-0a1b2c3d-77-train-00000-of-00002.array_record",
        folder / "train-00000-of-00009.array_record",
        folder / "train-00000-of-00009.array_record.json",
        folder / "catalog" / ".tmp-0a1b2c3d-77-puzzles.parquet",
    ]
    for path in left:
        path.write_bytes(b"half")
    (folder / "mine.txt").write_text("not ours")
    build_dataset(request_small(), layout, shard_examples=200, engine=LocalEngine(1))
    assert not [path for path in left if path.exists()]
    assert (folder / "mine.txt").exists()


def test_of_an_evaluation_after_a_day(evaluated: Evaluated, tmp_path: Path) -> None:
    shutil.copytree(evaluated.layout.place, tmp_path / "root")
    layout = resolve_root(tmp_path / "root")
    (part,) = Path(layout.place).glob("results/predictions/**/*.parquet")
    old, young = part.with_name(".tmp-0a1b2c3d-77-a.parquet"), part.with_name(".tmp-0a1b2c3d-78-b.parquet")
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - LEFT_S - 10,) * 2)
    (folder,) = list_runs(layout)
    evaluate_run(layout, folder, EvalRequest(limit=4))
    assert not old.exists()
    assert young.exists()  # its writer may be active


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a" / ".tmp-folder").mkdir(parents=True)
    for name in ("a/file", "a/.tmp-1-x", "b.tmp-1", ".tmp-2"):
        (tmp_path / name).write_bytes(b"")
    remove_temporary(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["b.tmp-1", "file"]
    remove_temporary(tmp_path / "nowhere")
