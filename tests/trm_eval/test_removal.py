"""Superseded evaluations are removed with their own files; a kill at any step leaves all or nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import error_of, run_here
from tests.trm_eval.conftest import Evaluated
from trm_data.storage import digests as files_by_digest
from trm_data.storage.local import LocalStore
from trm_data.storage.root import Layout, resolve_root
from trm_eval.cli import main
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest
from trm_eval.removal import remove_superseded
from trm_eval.tables.query import query_results
from trm_eval.tables.schema import NAMED_BY_EVALS
from trm_eval.tables.writer import adding, table_folder, write_table
from trm_train.runs.record import list_runs

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
    """Add candidates to an evaluation of Sudoku, as ARC has them: two files that its row refers to."""
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
        digests.append(files_by_digest.digest_of(written))
    row |= {"vote_parts": [f"{evaluation}-{number:05d}" for number in range(2)], "vote_digests": digests}
    folder.delete(name)
    write_table(layout, "evals", experiment, run.name, evaluation, [row])


@pytest.fixture(scope="module")
def many(trained: Evaluated, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A root with five evaluations of a run, one with votes; tests must not change it."""
    place = tmp_path_factory.mktemp("many") / "root"
    layout = resolve_root(shutil.copytree(trained.layout.place, place))
    made = [evaluate_run(layout, list_runs(layout)[0], request) for request in REQUESTS]
    with_votes(layout, made[0].row["evaluation"])
    return layout


@pytest.fixture
def layout(many: Layout, tmp_path: Path) -> Layout:
    """A copy that a test may change."""
    return resolve_root(shutil.copytree(many.place, tmp_path / "root"))


def superseding(layout: Layout) -> str:
    """Add an older row of a request under another id, with its own file; return the id."""
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
    row |= {
        "parts": [f"{old}-00000"],
        "part_digests": [files_by_digest.digest_of(written)],
        "vote_digests": None,
    }
    write_table(layout, "evals", experiment, run.name, old, [row])
    return old


class KilledHere(BaseException):
    """Simulates a kill."""


def killed_at(monkeypatch: pytest.MonkeyPatch, number: int, work: Callable[[], object]) -> bool:
    """Run `work`, killed at the `number`th write, rename or removal of a file; return whether it was killed."""
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
        patch.setattr(files_by_digest, "sync_file", counted(files_by_digest.sync_file, after=False))
        patch.setattr(LocalStore, "finish", counted(LocalStore.finish, after=True))
        patch.setattr(LocalStore, "delete", counted(LocalStore.delete, after=False))
        try:
            work()
        except KilledHere:
            return True
    return False


def test_superseded_evaluations_go_with_their_files_and_no_others(layout: Layout) -> None:
    shown, names = answers(layout), files(layout)
    old = superseding(layout)
    there = files(layout)
    (planned,), problems = remove_superseded(layout, dry_run=True)
    assert (planned.evaluation, planned.files, problems) == (old, 2, [])
    assert files(layout) == there
    (removed,), problems = remove_superseded(layout)
    assert (removed, problems) == (planned, [])
    assert files(layout) == names
    assert answers(layout) == shown
    assert remove_superseded(layout) == ([], [])


def test_a_file_that_another_evaluation_names_stays(layout: Layout) -> None:
    old = superseding(layout)
    (run,) = list_runs(layout)
    folder = table_folder(layout, "evals", run.path.split("/")[-2], run.name)
    (name,) = folder.names(f"{old}.*")
    (row,) = pq.ParquetFile(folder.uri(name)).read().to_pylist()
    newest = query_results(layout, "SELECT parts, part_digests FROM evals LIMIT 1").rows[0]
    row |= {"parts": newest[0], "part_digests": newest[1]}
    folder.delete(name)
    write_table(layout, "evals", run.path.split("/")[-2], run.name, old, [row])
    shown = answers(layout, EVERYTHING[:1])
    (removed,), _ = remove_superseded(layout)
    assert removed.files == 1
    assert answers(layout, EVERYTHING[:1]) == shown


def test_nothing_is_removed_while_the_run_is_evaluated(layout: Layout) -> None:
    superseding(layout)
    (run,) = list_runs(layout)
    names = files(layout)
    with adding(layout, run.path.split("/")[-2], run.name):
        removed, (problem,) = remove_superseded(layout)
    assert removed == []
    assert "is being evaluated" in problem
    assert files(layout) == names


def test_the_command_prints_each_and_refuses_what_it_does_not_know(layout: Layout) -> None:
    old = superseding(layout)
    root = ("--root", layout.place)
    done = run_here(main, "rm", "--superseded", "--json", *root)
    assert (done.returncode, [one["evaluation"] for one in json.loads(done.stdout)]) == (0, [old])
    assert run_here(main, "rm", "--superseded", *root).stdout == "no evaluation is superseded\n"
    code, line = error_of(main, "rm", *root)
    assert (code, "--superseded" in line) == (2, True)
    code, line = error_of(main, "rm", "tinny", "--superseded", *root)
    assert (code, "'tinny'" in line) == (2, True)


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_an_evaluation_killed_at_every_step_leaves_all_or_nothing(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    before, number = answers(layout, EVERYTHING[:3]), 1
    while True:
        half = resolve_root(shutil.copytree(layout.place, tmp_path / f"half{number}"))
        (run,) = list_runs(half)
        ended = killed_at(
            monkeypatch, number, lambda half=half, run=run: evaluate_run(half, run, REQUESTS[1])
        )
        assert answers(half, EVERYTHING[:3]) == before, number
        shutil.rmtree(half.place)
        if not ended:
            break
        number += stride
    assert number > 5
