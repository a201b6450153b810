"""Evaluations in the dashboard: order, intervals, names, figures."""

from __future__ import annotations

import pytest
from scipy import stats

from tests.trm_eval.conftest import Evaluated
from trm_data.storage.root import Layout
from trm_eval.serve.evaluations import evaluations_of, figures_of, first_of_each, labels_of
from trm_eval.tables.query import query_results


def test_evaluations_have_the_intervals_of_the_statistics(root: Layout, evaluated: Evaluated) -> None:
    asked = evaluations_of(root, [evaluated.record.run], [])
    (row,) = asked.rows
    assert (row["evaluation"], row["count"]) == (evaluated.row["evaluation"], 12)
    exact = evaluated.row["exact_count"]
    interval = stats.binomtest(exact, 12).proportion_ci(method="wilson")
    assert (row["exact_accuracy"], row["exact_low"], row["exact_high"]) == pytest.approx(
        (exact / 12, interval.low, interval.high), abs=1e-6
    )
    assert query_results(root, asked.query.sql).rows
    assert evaluations_of(root, ["another"], []).rows == []


def test_labels_tell_the_evaluations_of_one_run_apart() -> None:
    usual = {
        "step": 12,
        "weights": "ema",
        "dataset": "d",
        "split": "test",
        "supervision_steps": 4,
        "how": "max_steps",
    }
    rows = [
        {**usual, "run": "a", "evaluation": "1"},
        {**usual, "run": "a", "evaluation": "2", "supervision_steps": 128},
        {**usual, "run": "b", "evaluation": "3"},
    ]
    assert labels_of(rows) == {"1": "a, 4 supervision steps", "2": "a, 128 supervision steps", "3": "b"}
    assert [row["evaluation"] for row in first_of_each(rows)] == ["1", "3"]


def test_figures_come_with_the_sql_of_their_numbers(root: Layout, evaluated: Evaluated) -> None:
    asked = evaluations_of(root, [evaluated.record.run], [])
    problems: list[str] = []
    figures = figures_of(root, asked, asked.rows, problems)
    assert problems == []
    assert [figure.title.partition(",")[0] for figure in figures][:2] == [
        "Exact accuracy",
        "Exact accuracy by supervision step",
    ]
    for figure in figures:
        assert figure.svg.startswith(b"<?xml")
        assert query_results(root, figure.query.sql).rows
    assert figures_of(root, asked, [], problems) == []
