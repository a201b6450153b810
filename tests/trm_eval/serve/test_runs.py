"""Runs in the dashboard: the states of `trm-train status`, filters, curves in windows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.trm_eval.conftest import Evaluated
from tests.trm_eval.serve.conftest import HOSTILE, set_live
from trm_data.storage.root import Layout
from trm_eval.serve.curves import MEASURES, POINTS, curves_of, draw_curves
from trm_eval.serve.runs import runs_now
from trm_eval.tables.query import query_results
from trm_train.runs.status import overview


def shown(root: Layout, names: str = "") -> dict[str, dict]:
    problems: list[str] = []
    rows = runs_now(root, names, problems).rows
    assert problems == []
    return {row["run"]: row for row in rows}


def test_states_and_steps_are_those_of_trm_train_status(root: Layout) -> None:
    for age_s, expected in ((0, "running"), (600, "stalled")):
        set_live(root, step=6, heartbeat=datetime.now(UTC) - timedelta(seconds=age_s))
        rows = shown(root)
        known = {run.run: run for run in overview(root)}
        assert {run: row["state"] for run, row in rows.items()} == {
            name: run.condition for name, run in known.items()
        }
        assert sorted(row["state"] for row in rows.values()) == ["done", expected]
        for run, row in rows.items():
            status = known[run].status
            assert status is not None
            assert (row["step"], row["examples_per_s"]) == (status.step, status.examples_per_s)
    set_live(root, step=6)


def test_loss_is_that_of_the_last_step_and_accuracy_the_best_of_the_validations(
    root: Layout, evaluated: Evaluated
) -> None:
    row = shown(root)[evaluated.record.run]
    sql = "SELECT lm_loss FROM train_metrics WHERE run = ? AND split = 'train' AND step = 12"
    assert row["loss"] == query_results(root, sql, [evaluated.record.run]).rows[0][0]
    sql = "SELECT max(exact_accuracy) FROM train_metrics WHERE run = ? AND split = 'validation'"
    assert row["best_validation"] == query_results(root, sql, [evaluated.record.run]).rows[0][0]


@pytest.mark.parametrize(("names", "count"), [("tiny", 2), ("-s7", 1), ("'; DROP TABLE runs; --", 0)])
def test_filters(root: Layout, names: str, count: int) -> None:
    assert len(shown(root, names)) == count


def test_a_run_of_which_only_results_are_left(hostile: Layout) -> None:
    (row,) = shown(hostile).values()
    assert (row["run"], row["state"], row["step"]) == (HOSTILE, "results only", None)


def test_curves_are_sums_over_windows_and_every_validation(root: Layout, evaluated: Evaluated) -> None:
    run = evaluated.record.run
    asked = curves_of(root, [run], [])
    sql = "SELECT split, step, lm_loss, exact_accuracy FROM train_metrics WHERE run = ? ORDER BY split, step"
    rows = [(row["split"], row["step"], row["lm_loss"], row["exact_accuracy"]) for row in asked.rows]
    assert rows == query_results(root, sql, [run]).rows, "a window is a step where all fit"
    assert query_results(root, asked.query.sql).rows, "the SQL that is shown can be asked again"


def test_long_runs_have_as_many_points_as_can_be_seen(
    root: Layout, evaluated: Evaluated, monkeypatch
) -> None:
    from trm_eval.serve import curves

    narrow = curves.CURVES_SQL.replace(str(POINTS), "5")
    assert narrow != curves.CURVES_SQL
    monkeypatch.setattr(curves, "CURVES_SQL", narrow)
    rows = [row for row in curves_of(root, [evaluated.record.run], []).rows if row["split"] == "train"]
    assert [row["step"] for row in rows] == [3, 6, 9, 12]
    mean = "SELECT sum(lm_loss_sum) / sum(global_batch_size) FROM train_metrics"
    sql = f"{mean} WHERE split = 'train' AND step <= 3 AND run = ?"
    assert rows[0]["lm_loss"] == pytest.approx(query_results(root, sql, [evaluated.record.run]).rows[0][0])


def test_figures_name_every_run_as_text(root: Layout, hostile: Layout, evaluated: Evaluated) -> None:
    rows = curves_of(root, [evaluated.record.run], []).rows
    odd = [row | {"run": HOSTILE} for row in rows]
    for measure in MEASURES.values():
        for over in ("step", "seconds"):
            svg = draw_curves([HOSTILE], odd, measure, over)
            assert svg is not None
            assert b"<img" not in svg
            assert b"onerror=alert(1)" in svg, "the name is there, as text"
    assert draw_curves(["another"], rows, MEASURES["Loss in training"], "step") is None
