"""An evaluation that is killed at any step leaves all of its rows or none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.trm_eval.conftest import Evaluated
from trm_data.storage import atomic as files_by_digest
from trm_data.storage.local import LocalStore
from trm_data.storage.root import Layout, resolve_root
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest
from trm_eval.tables.query import query_results
from trm_train.runs.record import list_runs

EVERYTHING = (
    "SELECT * EXCLUDE (part) FROM predictions ORDER BY evaluation, row",
    "SELECT * EXCLUDE (part) FROM all_predictions ORDER BY evaluation, row",
    "SELECT * EXCLUDE (part) FROM all_traces ORDER BY evaluation, row, supervision_step, cycle",
)
REQUESTS = (
    EvalRequest(weights="raw"),
    EvalRequest(checkpoint="4", traces=2),
    EvalRequest(limit=5, subset_seed=1),
    EvalRequest(split="validation", traces=1),
)


def answers(layout: Layout) -> list[Any]:
    found = [query_results(layout, query) for query in EVERYTHING]
    assert [one.problems for one in found] == [()] * len(EVERYTHING)
    return [one.rows for one in found]


@pytest.fixture(scope="module")
def many(trained: Evaluated, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """A root with five evaluations of a run; tests must not change it."""
    place = tmp_path_factory.mktemp("many") / "root"
    layout = resolve_root(shutil.copytree(trained.layout.place, place))
    for request in REQUESTS:
        evaluate_run(layout, list_runs(layout)[0], request)
    return layout


@pytest.fixture
def layout(many: Layout, tmp_path: Path) -> Layout:
    """A copy that a test may change."""
    return resolve_root(shutil.copytree(many.place, tmp_path / "root"))


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


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_an_evaluation_killed_at_every_step_leaves_all_or_nothing(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    before, number = answers(layout), 1
    while True:
        half = resolve_root(shutil.copytree(layout.place, tmp_path / f"half{number}"))
        (run,) = list_runs(half)
        ended = killed_at(
            monkeypatch, number, lambda half=half, run=run: evaluate_run(half, run, REQUESTS[1])
        )
        assert answers(half) == before, number
        shutil.rmtree(half.place)
        if not ended:
            break
        number += stride
    assert number > 5
