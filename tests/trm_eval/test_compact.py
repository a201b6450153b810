"""Small files become few, and SQL answers the same: before, after, in between, and after a kill at any moment."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trm_eval
from tests.conftest import run_here
from tests.trm_eval.conftest import Evaluated
from trm_data.errors import BusyError
from trm_data.storage import digested
from trm_data.storage.local import LocalStore
from trm_data.storage.root import Layout, resolve_root
from trm_eval.cli import main
from trm_eval.compact import compact_results
from trm_eval.errors import ResultError
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest
from trm_eval.sync import sync_results
from trm_eval.tables import query
from trm_eval.tables.query import query_results
from trm_eval.tables.schema import NAMED_BY_EVALS, TABLES
from trm_eval.tables.writer import MERGED, adding, table_folder, write_table
from trm_train.metrics.table import missing_steps, part_names, read_metrics
from trm_train.run.record import list_runs

NAMES = ", ".join(column for columns in NAMED_BY_EVALS.values() for column in columns)
EVERYTHING = (
    "SELECT * EXCLUDE (part) FROM predictions ORDER BY evaluation, row",
    "SELECT * EXCLUDE (part) FROM all_predictions ORDER BY evaluation, row",
    "SELECT * EXCLUDE (part) FROM all_votes ORDER BY evaluation, task, test_index, rank",
    "SELECT * EXCLUDE (part) FROM all_traces ORDER BY evaluation, row, supervision_step, cycle",
    f"SELECT * EXCLUDE ({NAMES}) FROM all_evals ORDER BY evaluation",
    "SELECT * FROM train_metrics ORDER BY step, split",
    "SELECT * EXCLUDE (heartbeat) FROM runs",
)
REQUESTS = (
    EvalRequest(weights="raw"),
    EvalRequest(checkpoint="4", traces=2),
    EvalRequest(limit=5, subset_seed=1),
    EvalRequest(split="validation", traces=1),
)


def answers(layout: Layout, queries: tuple[str, ...] = EVERYTHING) -> list[Any]:
    found = [query_results(layout, query) for query in queries]
    assert [one.problems for one in found] == [()] * len(queries)
    return [one.rows for one in found]


def files(layout: Layout) -> list[str]:
    root = Path(layout.place)
    paths = [*root.glob("results/**/*"), *root.glob("runs/**/metrics/*")]
    return sorted(path.relative_to(root).as_posix() for path in paths if path.is_file())


def with_votes(layout: Layout, evaluation: str) -> None:
    """Candidates for an evaluation of Sudoku, as ARC has them: two files that its row names."""
    (run,) = list_runs(layout)
    experiment = run.path.split("/")[-2]
    folder = table_folder(layout, "evals", experiment, run.name)
    (name,) = folder.names(f"{evaluation}.*")
    (row,) = pq.ParquetFile(folder.uri(name)).read().to_pylist()
    digests = []
    for number in range(2):
        part = f"{evaluation}-{number:05d}"
        vote = {
            "evaluation": evaluation,
            "part": part,
            "task": f"t{number}",
            "test_index": 0,
            "rank": 1,
            "votes": 3,
        }
        written = write_table(layout, "votes", experiment, run.name, part, [{**vote, "grid": [1, 2]}])
        digests.append(digested.digest_of(written))
    row |= {"vote_parts": [f"{evaluation}-{number:05d}" for number in range(2)], "vote_digests": digests}
    folder.delete(name)
    write_table(layout, "evals", experiment, run.name, evaluation, [row])


@pytest.fixture(scope="module")
def many(trained: Evaluated, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A root with five evaluations of a run, one of them voted; tests must not change it."""
    place = tmp_path_factory.mktemp("many") / "root"
    layout = resolve_root(shutil.copytree(trained.layout.place, place))
    made = [evaluate_run(layout, list_runs(layout)[0], request) for request in REQUESTS]
    with_votes(layout, made[0].row["evaluation"])
    return layout


@pytest.fixture
def layout(many: Layout, tmp_path: Path) -> Layout:
    """A copy, which a test may change."""
    return resolve_root(shutil.copytree(many.place, tmp_path / "root"))


def test_few_files_hold_the_same_rows(layout: Layout) -> None:
    before, names = answers(layout), files(layout)
    (done,), problems = compact_results(layout)
    assert problems == []
    assert answers(layout) == before
    after = [name.split("/")[1] for name in files(layout) if name.startswith("results/")]
    assert sorted(after) == sorted(TABLES)  # a file a table
    assert (done.files_before, done.files_after) == (len(names), len(files(layout)))
    assert done.files_after < done.files_before
    again, _ = compact_results(layout)
    assert (again[0].files_before, again[0].files_after) == (done.files_after, done.files_after)


def test_merged_files_have_the_columns_and_comments_of_the_schema(layout: Layout) -> None:
    compact_results(layout)
    for table in TABLES:
        (path,) = Path(layout.place).glob(f"results/{table}/**/*.parquet")
        found = pq.read_schema(path)
        assert found.names == TABLES[table].names
        for stored, wanted in zip(found, TABLES[table], strict=True):
            assert stored.type.equals(wanted.type)
            assert stored.metadata == wanted.metadata


def test_a_dry_run_says_so_and_changes_nothing(layout: Layout) -> None:
    names = files(layout)
    (planned,), _ = compact_results(layout, dry_run=True)
    assert files(layout) == names
    (done,), _ = compact_results(layout)
    assert planned.files_after == done.files_after == len(files(layout))
    assert planned.bytes_after is None


def test_predictions_are_read_as_frames_of_their_evaluation(layout: Layout) -> None:
    before = trm_eval.read_predictions("tiny", layout).drop("part").collect()
    compact_results(layout)
    after = trm_eval.read_predictions("tiny", layout).drop("part").collect()
    assert sorted(after.rows()) == sorted(before.rows())


def test_evaluating_again_replaces_the_row_and_keeps_what_others_name(layout: Layout) -> None:
    before = answers(layout, EVERYTHING[:3])
    compact_results(layout)
    (merged,) = Path(layout.place).glob(f"results/predictions/**/{MERGED}*.parquet")
    evaluate_run(layout, list_runs(layout)[0], REQUESTS[1])
    assert merged.is_file()
    assert answers(layout, EVERYTHING[:3]) == before
    assert query_results(layout, "SELECT count(*), count(DISTINCT evaluation) FROM all_evals").rows == [
        (5, 5)
    ]
    compact_results(layout)
    assert answers(layout, EVERYTHING[:3]) == before
    (path,) = Path(layout.place).glob("results/predictions/**/*.parquet")
    assert path != merged
    assert pq.read_metadata(path).num_rows == len(before[1])  # the rows that were replaced are gone


def superseding(layout: Layout) -> str:
    """An older row of one of the requests under another id, with a file of its own; its id."""
    (run,) = list_runs(layout)
    experiment = run.path.split("/")[-2]
    folder = table_folder(layout, "evals", experiment, run.name)
    row = pq.ParquetFile(folder.uri(folder.names("*.parquet")[0])).read().to_pylist()[0]
    old = "0123456789abcdef"
    parts = table_folder(layout, "predictions", experiment, run.name)
    rows = pq.ParquetFile(parts.uri(f"{row['parts'][0]}.{row['part_digests'][0]}.parquet")).read()
    for name, value in (("evaluation", old), ("part", f"{old}-00000")):
        column = pa.array([value] * len(rows))
        rows = rows.set_column(rows.column_names.index(name), name, column)
    written = write_table(layout, "predictions", experiment, run.name, f"{old}-00000", rows)
    row |= {"evaluation": old, "created_at": datetime(2020, 1, 1, tzinfo=UTC), "vote_parts": None}
    row |= {"parts": [f"{old}-00000"], "part_digests": [digested.digest_of(written)], "vote_digests": None}
    write_table(layout, "evals", experiment, run.name, old, [row])
    return old


def test_superseded_evaluations_go_when_that_is_asked_for(layout: Layout) -> None:
    shown = answers(layout, EVERYTHING[:1])
    old = superseding(layout)
    count = "SELECT count(*) FROM all_evals"
    (done,), _ = compact_results(layout)
    assert done.evaluations_removed == 0
    assert query_results(layout, count).rows == [(6,)]
    (done,), _ = compact_results(layout, superseded=True)
    assert done.evaluations_removed == 1
    assert query_results(layout, count).rows == [(5,)]
    assert query_results(layout, "SELECT count(*) FROM all_predictions WHERE evaluation = ?", [old]).rows == [
        (0,)
    ]
    assert answers(layout, EVERYTHING[:1]) == shown
    (path,) = Path(layout.place).glob("results/predictions/**/*.parquet")
    assert old not in pq.read_table(path, partitioning=None)["evaluation"].to_pylist()


def test_what_nothing_names_goes(layout: Layout) -> None:
    before = answers(layout)
    (run,) = list_runs(layout)
    part = next(Path(layout.place).glob("results/predictions/**/*.parquet"))
    left = [
        part.with_name("deadbeefdeadbeef-00000.0123456789abcdef.parquet"),
        part.with_name(".tmp-a-1-x.parquet"),
    ]
    for path in left:
        shutil.copyfile(part, path)
    with adding(layout, "tiny", run.name):  # an evaluation is at work: these may be its files
        _, (problem,) = compact_results(layout)
    assert "left as it is" in problem
    assert "is being evaluated; wait for it" in problem
    assert all(path.is_file() for path in left)
    compact_results(layout)
    assert not any(path.exists() for path in left)
    assert answers(layout) == before


def test_nothing_is_written_while_results_are_compacted(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, refused = LocalStore.finish, list[str]()

    def busy(self: LocalStore, name: str, *rest: Any) -> None:
        if refused or not name.startswith("results/"):
            finish(self, name, *rest)
            return
        for write in (
            lambda: evaluate_run(layout, list_runs(layout)[0], REQUESTS[0]),
            lambda: sync_results(resolve_root(other), layout),
        ):
            with pytest.raises(BusyError, match="its results are being compacted; wait for it"):
                write()
            refused.append(name)
        finish(self, name, *rest)

    other = shutil.copytree(layout.place, Path(layout.place).parent / "other")
    monkeypatch.setattr(LocalStore, "finish", busy)
    compact_results(layout)
    assert refused


@pytest.mark.parametrize("table", ["evals", "predictions", "votes"])
def test_a_damaged_file_stops_it_before_anything_is_removed(layout: Layout, table: str) -> None:
    path = next(Path(layout.place).glob(f"results/{table}/**/*.parquet"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    names = files(layout)
    done, (problem,) = compact_results(layout)
    assert done == []
    assert f"{path}: its bytes are not those that were written" in problem
    assert files(layout) == names


def test_a_missing_file_stops_it_too(layout: Layout) -> None:
    next(Path(layout.place).glob("results/predictions/**/*.parquet")).unlink()
    names = files(layout)
    _, (problem,) = compact_results(layout)
    assert "is missing, and an evaluation names it; evaluate again" in problem
    assert files(layout) == names


def test_what_was_written_wrong_is_not_believed(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    before = answers(layout)
    write = pq.ParquetWriter.write_table

    def losing(self: pq.ParquetWriter, rows: pa.Table, *rest: Any) -> None:
        write(self, rows.slice(1), *rest)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", losing)
    done, (problem,) = compact_results(layout)
    assert done == []
    assert "does not hold the rows that were merged; nothing was removed" in problem
    assert answers(layout) == before


def test_files_of_a_newer_version_stay_as_they_are(layout: Layout) -> None:
    path = next(Path(layout.place).glob("results/evals/**/*.parquet"))
    rows = pq.ParquetFile(path).read()
    newer = rows.append_column("tomorrow", pa.array([1] * len(rows)))
    folder = table_folder(layout, "evals", "tiny", list_runs(layout)[0].name)
    written = digested.write_digested(
        folder, digested.stem_of(path.name), lambda at: pq.write_table(newer, at)
    )
    path.unlink()
    parts = {
        f"{part}.{digest}.parquet"
        for part, digest in zip(rows["parts"][0].as_py(), rows["part_digests"][0].as_py(), strict=True)
    }
    before = answers(layout)
    compact_results(layout)
    assert answers(layout) == before
    assert written in folder.names("*")
    assert parts <= {path.name for path in Path(layout.place).glob("results/predictions/**/*.parquet")}


def test_a_compacted_root_is_copied_over_one_that_is_not(layout: Layout, tmp_path: Path) -> None:
    before, other = answers(layout), resolve_root(tmp_path / "other")
    sync_results(layout, other)
    compact_results(layout)
    sync_results(layout, other)
    for _ in range(2):
        assert answers(other, EVERYTHING[:4]) == before[:4]
        compact_results(other)


class KilledHere(BaseException):
    """Stands for a kill."""


def killed_at(monkeypatch: pytest.MonkeyPatch, number: int, work: Callable[[], object]) -> bool:
    """Do something that ends at the `number`th time that a file is written, named, or removed; whether it ended so."""
    count = 0

    def counted(call: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == number and not after:
                raise KilledHere
            found = call(*arguments, **options)
            if count == number:
                raise KilledHere
            return found

        return step

    with monkeypatch.context() as patch:
        patch.setattr(digested, "sync_file", counted(digested.sync_file, after=False))
        patch.setattr(LocalStore, "finish", counted(LocalStore.finish, after=True))
        patch.setattr(LocalStore, "delete", counted(LocalStore.delete, after=False))
        try:
            work()
        except KilledHere:
            return True
    return False


@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_every_step_it_loses_and_doubles_nothing(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    superseding(layout)
    before, number = answers(layout), 1
    compact_results(whole := resolve_root(shutil.copytree(layout.place, tmp_path / "whole")))
    while True:
        half = resolve_root(shutil.copytree(layout.place, tmp_path / f"half{number}"))
        ended = killed_at(monkeypatch, number, lambda half=half: compact_results(half))
        assert answers(half) == before, number
        compact_results(half)
        assert answers(half) == before, number
        assert files(half) == files(whole), number
        shutil.rmtree(half.place)
        if not ended:
            break
        number += stride
    assert number > 20


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_an_evaluation_killed_at_every_step_after_compacting(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    compact_results(layout)
    before, number = answers(layout, EVERYTHING[:3]), 1
    while True:
        half = resolve_root(shutil.copytree(layout.place, tmp_path / f"half{number}"))
        (run,) = list_runs(half)
        ended = killed_at(
            monkeypatch, number, lambda half=half, run=run: evaluate_run(half, run, REQUESTS[1])
        )
        assert answers(half, EVERYTHING[:3]) == before, number
        compact_results(half)
        assert answers(half, EVERYTHING[:3]) == before, number
        shutil.rmtree(half.place)
        if not ended:
            break
        number += stride
    assert number > 5


def test_others_read_meanwhile(layout: Layout, many: Layout) -> None:
    expected, wrong, ended = answers(layout, EVERYTHING[1:4]), [], threading.Event()

    def read() -> None:
        while not ended.is_set():
            try:
                if (found := answers(layout, EVERYTHING[1:4])) != expected:
                    wrong.append([len(rows) for rows in found])
            except Exception as error:  # noqa: BLE001
                wrong.append(repr(error))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(5):
        compact_results(layout)
        sync_results(many, layout)  # small files again
    ended.set()
    reader.join()
    assert wrong == []


@pytest.mark.parametrize("moment", ["allow", "run_locked"])
def test_replaced_between_opening_and_reading(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    expected, there, compacted = answers(layout, EVERYTHING[3:4]), getattr(query, moment), []

    def replaced(*arguments: Any, **named: Any) -> Any:
        if not compacted:
            compacted.append(True)
            compact_results(layout)
        return there(*arguments, **named)

    monkeypatch.setattr(query, moment, replaced)
    assert answers(layout, EVERYTHING[3:4]) == expected
    assert compacted


def test_metric_parts_become_one_as_far_as_training_goes_back(layout: Layout) -> None:
    (run,) = list_runs(layout)
    before = read_metrics(run, 12)
    assert [name.split(".")[0] for name in part_names(run)] == [
        "000000001-000000004",
        "000000005-000000008",
        "000000009-000000012",
    ]
    compact_results(layout)
    # It may go on from step 8, and then drops what reaches beyond.
    assert [name.split(".")[0] for name in part_names(run)] == ["000000001-000000008", "000000009-000000012"]
    assert read_metrics(run, 12).equals(before)
    shutil.rmtree(run.uri("checkpoints/resume"))
    compact_results(layout)
    (name,) = part_names(run)
    assert name.startswith("000000001-000000012.")
    assert read_metrics(run, 12).equals(before)
    assert missing_steps(part_names(run), 12) == ""


def test_a_gap_in_the_metrics_stays_one(layout: Layout) -> None:
    (run,) = list_runs(layout)
    shutil.rmtree(run.uri("checkpoints/resume"))
    run.within("metrics").delete(part_names(run)[1])
    compact_results(layout)
    assert missing_steps(part_names(run), 12) == "5 to 8"


def test_the_command_says_what_became_of_the_files(layout: Layout) -> None:
    done = run_here(main, "compact", "--dry-run", "--root", layout.place)
    assert done.returncode == 0
    assert "files would become" in done.stdout
    done = run_here(main, "compact", "tiny", "--root", layout.place)
    assert done.returncode == 0
    assert "1 runs:" in done.stdout
    done = run_here(main, "compact", "--json", "--root", layout.place)
    assert json.loads(done.stdout)[0]["run"] == list_runs(layout)[0].name
    refused = run_here(main, "compact", "nothing*", "--root", layout.place)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    with pytest.raises(ResultError, match="is called 'nothing"):
        compact_results(layout, ["nothing*"])
    next(Path(layout.place).glob("results/predictions/**/*.parquet")).write_bytes(b"")
    left = run_here(main, "compact", "--root", layout.place)
    assert left.returncode == 1
    assert "left as it is" in left.stderr
