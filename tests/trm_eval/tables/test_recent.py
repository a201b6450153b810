"""Listings of a root, shared between queries of a process; a lost file is never used."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trm_eval.conftest import Evaluated
from trm_data.storage.root import Layout, resolve_root
from trm_eval.tables import recent
from trm_eval.tables.query import query_results

RUNS, PREDICTED = "SELECT run FROM runs", "SELECT count(*) FROM predictions"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Clock of `recent`; queries share listings for 4 s."""
    now = [100.0]
    monkeypatch.setattr(recent.time, "monotonic", lambda: now[0])
    recent.keep_for(4)
    yield now
    recent.keep_for(0)


@pytest.fixture
def root(evaluated: Evaluated, tmp_path: Path) -> Layout:
    layout = resolve_root(tmp_path / "root")
    shutil.copytree(evaluated.layout.machine, layout.machine, ignore=shutil.ignore_patterns("*.lock"))
    return layout


def test_a_run_that_came_meanwhile_is_seen_when_the_listing_is_old(root: Layout, clock: list[float]) -> None:
    runs = root.machine / "runs"
    runs.rename(root.machine / "away")
    shutil.rmtree(root.machine / "results" / "runs")
    assert query_results(root, RUNS).rows == []
    (root.machine / "away").rename(runs)
    clock[0] += 4
    assert query_results(root, RUNS).rows == []
    clock[0] += 0.1
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


def test_without_being_asked_nothing_is_kept(root: Layout) -> None:
    assert len(query_results(root, RUNS).rows) == 1
    shutil.rmtree(root.machine / "runs")
    shutil.rmtree(root.machine / "results" / "runs")
    assert query_results(root, RUNS).rows == []
