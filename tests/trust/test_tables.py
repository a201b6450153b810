"""Result tables and metric parts: a file with changed bytes is named, and never trusted."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trm_eval
from tests.conftest import run_here
from tests.trm_eval.conftest import Evaluated
from trm_data.errors import CorruptFileError, QueryError
from trm_data.storage import atomic
from trm_data.storage.atomic import digest_of, stem_of
from trm_data.storage.root import Layout, resolve_root
from trm_eval.cli import main
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest
from trm_eval.tables.query import query_results
from trm_eval.tables.writer import replace_table
from trm_train.metrics import missing_steps, read_metrics
from trm_train.runs.record import list_runs

EVERYTHING = (
    "SELECT * FROM predictions ORDER BY row",
    "SELECT * EXCLUDE (heartbeat) FROM runs",
    "SELECT * FROM train_metrics ORDER BY step, split",
    "SELECT * FROM all_evals",
)


@pytest.fixture
def layout(evaluated: Evaluated, tmp_path: Path) -> Layout:
    """Return a copy of a root with one evaluated run, which a test may damage."""
    shutil.copytree(evaluated.layout.place, tmp_path / "root")
    return resolve_root(tmp_path / "root")


def tables(layout: Layout) -> list[Path]:
    """Return every Parquet file of results, and every metric part of the run."""
    root = Path(layout.place)
    return sorted([*root.glob("results/**/*.parquet"), *root.glob("runs/**/metrics/*.parquet")])


def answers(layout: Layout) -> list[Any]:
    return [query_results(layout, query).rows for query in EVERYTHING]


def test_every_file_says_its_digest(layout: Layout) -> None:
    names = [path.name for path in tables(layout)]
    assert len(names) >= 3 + 3
    assert all(digest_of(name) is not None for name in names)


def harmed(path: Path, draws: random.Random) -> None:
    """Flip one bit, keeping size and time."""
    status, data = path.stat(), bytearray(path.read_bytes())
    data[draws.randrange(len(data))] ^= 1 << draws.randrange(8)
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


@pytest.mark.parametrize("harm", ["cut", "emptied", "swapped"])
def test_other_harm_is_named_too(layout: Layout, harm: str) -> None:
    (path,) = Path(layout.place).glob("results/predictions/**/*.parquet")
    if harm == "swapped":
        shutil.copyfile(next(Path(layout.place).glob("results/evals/**/*.parquet")), path)
    else:
        path.write_bytes(path.read_bytes()[: -1 if harm == "cut" else 0])
    for ask in (
        lambda: query_results(layout, EVERYTHING[0]),
        lambda: trm_eval.sql(EVERYTHING[0], layout),
    ):
        with pytest.raises(CorruptFileError, match=f"{path.name}: its bytes are not those that were written"):
            ask()


def test_a_missing_file_that_an_evaluation_names_is_said(layout: Layout) -> None:
    (path,) = Path(layout.place).glob("results/predictions/**/*.parquet")
    path.unlink()
    found = query_results(layout, "SELECT count(*) FROM predictions")
    assert found.rows == [(0,)]
    assert f"{path}: is missing, and an evaluation names it" in found.problems[0]
    assert query_results(layout, "SELECT count(*) FROM evals").problems == ()
    with pytest.raises(QueryError, match="is missing, and an evaluation names it"):
        trm_eval.sql("SELECT count(*) FROM predictions", layout)
    assert trm_eval.sql("SELECT count(*) FROM predictions", layout, skip_damaged=True).item() == 0


@pytest.mark.parametrize("table", ["predictions", "evals", "runs", "train_metrics"])
def test_a_damaged_file_is_left_out_where_that_is_asked_for(
    evaluated: Evaluated, tmp_path: Path, table: str
) -> None:
    layout = resolve_root(shutil.copytree(evaluated.layout.place, tmp_path / "root", symlinks=True))
    metrics = read_metrics(evaluated.folder)  # versions up to 0.1 published them
    replace_table(layout, "train_metrics", "tiny", evaluated.record.run, "train_metrics", metrics)
    shutil.rmtree(tmp_path / "root" / "runs")  # so that its published rows count
    (victim,) = (tmp_path / "root" / "results" / table).rglob("*.parquet")
    victim.write_bytes(victim.read_bytes()[:-9])
    query = f"SELECT count(*) FROM {table}"
    with pytest.raises(CorruptFileError, match=victim.name):
        trm_eval.sql(query, layout)
    assert trm_eval.sql(query, layout, skip_damaged=True).item() == 0
    with pytest.raises(CorruptFileError, match=victim.name):  # the option applies to its query only
        trm_eval.sql(query, layout)
    refused = run_here(main, "sql", query, "--root", layout.place)
    assert (refused.returncode, victim.name in refused.stderr) == (2, True)
    skipped = run_here(main, "sql", query, "--skip-damaged", "--format", "csv", "--root", layout.place)
    assert (skipped.returncode, skipped.stdout) == (0, "count_star()\n0\n")
    assert skipped.stderr.count(victim.name) == 1
    done = run_here(main, "duckdb", str(tmp_path / "x.duckdb"), "--skip-damaged", "--root", layout.place)
    assert (done.returncode, victim.name in done.stderr) == (0, True), done.stderr


def test_a_damaged_metric_part_stops_what_reads_it(layout: Layout, tmp_path: Path) -> None:
    part = next(Path(layout.place).glob("runs/**/metrics/*.parquet"))
    harmed(part, random.Random(0))
    (folder,) = list_runs(layout)
    for read in (
        lambda: read_metrics(folder),
        lambda: evaluate_run(layout, folder, EvalRequest()),
    ):
        with pytest.raises(CorruptFileError, match=part.name):
            read()


def test_what_was_whole_is_checked_again_when_it_changed_or_is_asked_for(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def counting(path: Path, sha256: Callable[[Path], str] = atomic.file_sha256) -> str:
        read.append(path)
        return sha256(path)

    monkeypatch.setattr(atomic, "file_sha256", counting)
    query = "SELECT count(*) FROM evals"
    (path,) = Path(layout.place).glob("results/evals/**/*.parquet")
    query_results(layout, query)  # the copy has another inode than the checked file
    assert path in read
    read.clear()
    query_results(layout, query)
    assert read == []
    query_results(layout, query, verify=True)
    assert path in read
    read.clear()
    os.utime(path)
    query_results(layout, query)
    assert read == [path]
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # hide the change
    with pytest.raises(CorruptFileError):
        query_results(layout, query, verify=True)


def test_a_lost_or_damaged_note_of_what_was_whole_costs_a_check_and_nothing_else(layout: Layout) -> None:
    whole, note = answers(layout), layout.machine / "cache" / "whole.json"
    for content in (b"", b"{", b"[]", b'{"a": 1}', b"\xff"):
        note.write_bytes(content)
        assert answers(layout) == whole
    note.unlink()
    assert answers(layout) == whole
    assert json.loads(note.read_bytes())


def test_evaluating_again_removes_the_parts_of_before_and_no_others(layout: Layout) -> None:
    (folder,) = list_runs(layout)
    (part,) = Path(layout.place).glob("results/predictions/**/*.parquet")
    others = part.with_name(f"{stem_of(part.name)}.0123456789abcdef.parquet")
    shutil.copyfile(part, others)  # of a writer active elsewhere
    old = part.with_name(f"{stem_of(part.name)}.parquet")
    (row_file,) = Path(layout.place).glob("results/evals/**/*.parquet")
    row = pq.ParquetFile(row_file).read()
    nulls = pa.nulls(1, pa.list_(pa.string()))
    row = row.set_column(row.column_names.index("part_digests"), "part_digests", nulls)
    part.rename(old)
    pq.write_table(row, row_file.with_name(f"{stem_of(row_file.name)}.parquet"))
    row_file.unlink()
    assert query_results(layout, "SELECT count(*) FROM predictions").rows == [(12,)]  # as in format 1
    evaluate_run(layout, folder, EvalRequest())
    assert not old.exists()
    assert others.exists()
    assert query_results(layout, "SELECT count(*) FROM predictions").rows == [(12,)]


def test_metrics_of_steps_that_are_gone_are_said(layout: Layout) -> None:
    """A part has no row in any table: its loss shows only in the steps of the other parts."""
    parts = sorted(Path(layout.place).glob("runs/**/metrics/*.parquet"))
    (folder,) = list_runs(layout)
    for part in parts:
        first, last = map(int, stem_of(part.name).split("-"))
        steps = f"{first}" if first == last else f"{first} to {last}"
        saved = part.read_bytes()
        part.unlink()
        found = query_results(layout, "SELECT count(*) FROM train_metrics")
        assert (
            f"the metrics of steps {steps} are missing: a part in {folder.where('metrics')} is gone"
            in (found.problems[0])
        )
        assert query_results(layout, "SELECT count(*) FROM evals").problems == ()
        with pytest.raises(CorruptFileError, match=f"the rows of steps {steps} are missing"):
            read_metrics(folder, 12)
        part.write_bytes(saved)
    assert query_results(layout, "SELECT count(*) FROM train_metrics").problems == ()
    assert read_metrics(folder).num_rows == 14


@pytest.mark.parametrize(
    ("names", "last", "missing"),
    [
        ([], 3, "1 to 3"),
        (["000000001-000000004"], 5, "5"),
        (["000000001-000000004", "000000006-000000008"], 0, "5"),
        (["000000003-000000004", "000000009-000000009"], 11, "1 to 2, 5 to 8, 10 to 11"),
    ],
)
def test_which_steps_are_missing(names: list[str], last: int, missing: str) -> None:
    assert missing_steps([f"{name}.0123456789abcdef.parquet" for name in names], last) == missing


def test_an_evaluation_needs_no_metrics(layout: Layout) -> None:
    sorted(Path(layout.place).glob("runs/**/metrics/*.parquet"))[1].unlink()
    (folder,) = list_runs(layout)
    assert evaluate_run(layout, folder, EvalRequest(limit=4)).row["count"] == 4


def test_a_status_with_other_bytes_says_nothing(layout: Layout) -> None:
    (folder,) = list_runs(layout)
    whole = folder.read("status.json") or b""
    assert query_results(layout, "SELECT state, step FROM runs").rows == [("finished", 12)]
    folder.write("status.json", whole.replace(b'"step": 12', b'"step": 92'))
    assert query_results(layout, "SELECT state, step FROM runs").rows == [(None, None)]
    folder.write("status.json", b"[" * 200_000)
    assert query_results(layout, "SELECT state, step FROM runs").rows == [(None, None)]
    value = json.loads(whole)
    del value["digest"]
    folder.write("status.json", json.dumps(value).encode())  # as in versions without digests
    assert query_results(layout, "SELECT state, step FROM runs").rows == [("finished", 12)]
