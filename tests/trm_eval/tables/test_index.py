"""The index of results: what makes it read files again, and what is read again."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.trm_eval.conftest import Evaluated
from trm_data.storage.root import Layout, resolve_root
from trm_eval.tables import index
from trm_eval.tables.index import NAME, keep_for, results_index
from trm_eval.tables.query import query_results, skipping_damaged
from trm_eval.tables.writer import write_table
from trm_train.runs.status import STATUS_FILE, read_status, status_bytes

RUNS, PREDICTED = "SELECT run FROM runs", "SELECT count(*) FROM predictions"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Clock of the index; queries use an index of up to 4 s without a comparison."""
    now = [100.0]
    monkeypatch.setattr(index.time, "monotonic", lambda: now[0])
    keep_for(4)
    yield now
    keep_for(0)


@pytest.fixture
def root(evaluated: Evaluated, tmp_path: Path) -> Layout:
    layout = resolve_root(tmp_path / "root")
    shutil.copytree(evaluated.layout.machine, layout.machine, ignore=shutil.ignore_patterns("*.lock", NAME))
    return layout


@pytest.fixture
def read(root: Layout, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files of tables, and records, that the index reads from now on."""
    results_index(root)
    files: list[str] = []
    insert, rows = index._insert, index.run_rows

    def inserting(connection, table, sources, found):  # type: ignore[no-untyped-def]
        files.extend(found)
        insert(connection, table, sources, found)

    def reading(layout, folders):  # type: ignore[no-untyped-def]
        files.extend(folder.path for folder in folders)
        return rows(layout, folders)

    monkeypatch.setattr(index, "_insert", inserting)
    monkeypatch.setattr(index, "run_rows", reading)
    return files


def test_only_changed_files_are_read_again(root: Layout, read: list[str]) -> None:
    before = root.index(NAME).stat().st_ino
    assert query_results(root, "SELECT count(*) FROM evals").rows == [(1,)]
    assert (read, root.index(NAME).stat().st_ino) == ([], before)
    (path,) = Path(root.place).glob("results/evals/**/*.parquet")
    os.utime(path)
    assert query_results(root, "SELECT count(*) FROM evals").rows == [(1,)]
    assert read == [path.relative_to(root.place).as_posix()]
    assert root.index(NAME).stat().st_ino != before
    path.unlink()
    assert query_results(root, "SELECT count(*) FROM evals").rows == [(0,)]


@pytest.mark.parametrize("content", [b"junk", b"junk" * 5_000])
def test_an_index_that_is_damaged_is_made_again(root: Layout, read: list[str], content: bytes) -> None:
    expected = query_results(root, "SELECT run, step, exact_accuracy FROM evals").rows
    root.index(NAME).write_bytes(content)
    assert query_results(root, "SELECT run, step, exact_accuracy FROM evals").rows == expected
    assert read


def test_other_views_or_definitions_make_a_new_index(
    root: Layout, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    views = index.views_sql()
    monkeypatch.setattr(
        index, "views_sql", lambda: views + "\n-- Of a later version.\nCREATE VIEW later AS SELECT 1 AS one;"
    )
    assert query_results(root, "FROM later").rows == [(1,)]
    assert read


def test_a_run_whose_process_has_ended_is_stalled(
    root: Layout, evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = root.runs.within(evaluated.folder.path.removeprefix("runs/"))
    status = read_status(folder)
    assert status is not None
    running = dataclasses.replace(status, state="running", process=os.getpid())
    folder.write(STATUS_FILE, status_bytes(dataclasses.replace(running, host=index.socket.gethostname())))
    assert query_results(root, "SELECT state FROM runs").rows == [("running",)]
    monkeypatch.setattr(index, "has_ended", lambda process: process == os.getpid())
    monkeypatch.setattr("trm_train.runs.status.has_ended", lambda process: True)
    assert query_results(root, "SELECT state FROM runs").rows == [("stalled",)]


def test_of_two_rows_of_an_evaluation_the_newer_counts(root: Layout) -> None:
    for number, (run, evaluation, day) in enumerate(
        [("r", "a", 2), ("r", "a", 1), ("r", "b", 1), ("other", "a", 1), ("r", "b", 3)]
    ):
        made = datetime(2026, 1, day, tzinfo=UTC)
        write_table(root, "evals", "e", run, f"x{number}", [{"evaluation": evaluation, "created_at": made}])
    newest = query_results(
        root, "SELECT run, evaluation, day(created_at) FROM all_evals WHERE experiment = 'e' ORDER BY ALL"
    )
    assert newest.rows == [("other", "a", 1), ("r", "a", 2), ("r", "b", 3)]


def test_published_rows_of_a_run_count_when_its_folder_is_gone(root: Layout, evaluated: Evaluated) -> None:
    assert query_results(root, RUNS).rows == [(evaluated.record.run,)]
    shutil.rmtree(root.machine / "runs")
    assert query_results(root, "SELECT run, state FROM runs").rows == [(evaluated.record.run, None)]


def test_an_index_of_a_root_that_may_only_be_read_is_in_the_cache(
    root: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != root.machine)
    assert query_results(root, "SELECT count(*) FROM puzzles").rows == [(44,)]
    assert not (root.machine / NAME).exists()
    names = {path.name for path in (tmp_path / "cache" / "roots").glob("*/*.duckdb")}
    assert names == {NAME, "catalog.duckdb"}


def test_a_run_that_came_meanwhile_is_seen_when_the_index_is_old(root: Layout, clock: list[float]) -> None:
    runs = root.machine / "runs"
    runs.rename(root.machine / "away")
    shutil.rmtree(root.machine / "results" / "runs")
    assert query_results(root, RUNS).rows == []
    (root.machine / "away").rename(runs)
    clock[0] += 3.9
    assert query_results(root, RUNS).rows == []
    clock[0] += 0.2
    assert len(query_results(root, RUNS).rows) == 1


def test_predictions_that_are_gone_are_named_at_once(
    root: Layout, evaluated: Evaluated, clock: list[float]
) -> None:
    assert query_results(root, PREDICTED).rows == [(12,)]
    shutil.rmtree(root.machine / "results" / "predictions")
    found = query_results(root, PREDICTED)
    assert found.rows == [(0,)]
    assert "is missing, and an evaluation names it" in found.problems[0]
    shutil.rmtree(root.machine / "results" / "evals")
    clock[0] += 5
    assert query_results(root, PREDICTED).problems == ()


def test_files_of_other_versions_are_read_together(root: Layout) -> None:
    """Other columns, other order, other types; text instead of a number leaves out that file alone."""
    files = {
        "a": {"evaluation": "a", "step": np.int32(1), "lm_loss_sum": np.float32(0.5)},
        "b": {"of_later": "x", "lm_loss_sum": 0.25, "evaluation": "b"},
        "c": {"evaluation": "c", "step": "three"},
        "d": {"evaluation": "d", "step": 2**40, "lm_loss_sum": None},
    }
    folder = root.machine / "results" / "evals" / "experiment=e" / "run=r [1]"
    folder.mkdir(parents=True)
    for name, row in files.items():
        pq.write_table(
            pa.table({column: [value] for column, value in row.items()}), folder / f"{name}.parquet"
        )
    with skipping_damaged():
        found = query_results(
            root, "SELECT run, evaluation, step, lm_loss_sum FROM all_evals WHERE experiment = 'e' ORDER BY 2"
        )
    assert found.rows == [
        ("r [1]", "a", 1, 0.5), ("r [1]", "b", None, 0.25), ("r [1]", "d", 2**40, None)
    ]  # fmt: skip
    (problem,) = found.problems
    assert str(folder / "c.parquet") in problem
    assert "three" in problem


@pytest.mark.parametrize("content", [None, b"junk"])
def test_a_file_that_changes_before_it_is_read_is_left_out(
    root: Layout, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    """Deleted, or damaged."""
    check = index.checked_files

    def checking(*arguments: Any, **options: Any) -> list[Path | None]:
        paths = check(*arguments, **options)
        for path in filter(None, paths):
            if "evals" in path.parts:
                path.unlink() if content is None else path.write_bytes(content)
        return paths

    monkeypatch.setattr(index, "checked_files", checking)
    with skipping_damaged():
        found = query_results(root, "SELECT count(*) FROM evals")
    assert found.rows == [(0,)]
    assert len(found.problems) == (content is not None)


def test_a_query_does_not_import_pandas(root: Layout) -> None:
    """It takes a quarter of the time of a query, and is installed with the dashboard."""
    pytest.importorskip("pandas")
    results_index(root)
    code = (
        "import sys; from trm_data.storage.root import resolve_root; from trm_eval.tables.query import query_results; "
        "query_results(resolve_root(sys.argv[1]), 'SELECT count(*) FROM runs'); sys.exit('pandas' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(root.machine)], check=True)


def test_without_being_asked_nothing_is_kept(root: Layout) -> None:
    assert len(query_results(root, RUNS).rows) == 1
    shutil.rmtree(root.machine / "runs")
    shutil.rmtree(root.machine / "results" / "runs")
    assert query_results(root, RUNS).rows == []
