"""The SQL shown with a figure is the SQL that gave its numbers.

Colours, markers and names in figures.
"""

from __future__ import annotations

import matplotlib.figure
import pytest

from tests.trm_eval.conftest import Evaluated
from trm_eval.report.ask import ask, filled
from trm_eval.report.canvas import COLOURS, limit_percent, looks
from trm_eval.report.figures import paint_depths, paint_shares
from trm_eval.tables.query import query_results


def test_values_become_literals() -> None:
    sql = filled("SELECT ? WHERE run IN ? AND k = ?", ["it's", ["a", "b'; --"], 3])
    assert sql == "SELECT 'it''s' WHERE run IN ['a', 'b''; --'] AND k = 3"


def test_what_is_printed_gives_the_same_rows(evaluated: Evaluated) -> None:
    problems: list[str] = []
    asked = ask(
        evaluated.layout, "tests", "SELECT run, count FROM evals WHERE list_contains(?, run)",
        [[evaluated.record.run, "it's none"]], problems,
    )  # fmt: skip
    assert asked.rows == [{"run": evaluated.record.run, "count": 12}]
    assert query_results(evaluated.layout, asked.query.sql).rows == [(evaluated.record.run, 12)]
    assert not problems


def test_seeds_of_an_experiment_share_colour_and_legend_entry() -> None:
    styles = looks(["rule", "moved", "rule"])
    assert [style["color"] for style in styles] == [COLOURS[0], COLOURS[1], COLOURS[0]]
    assert [style["label"] for style in styles] == ["rule", "moved", "_"]
    assert styles[0]["linewidth"] < styles[1]["linewidth"]
    axis = matplotlib.figure.Figure().subplots()
    rows = [{"depth": 1, "exact_low": 0.1, "exact_accuracy": 0.2, "exact_high": 0.3}]
    paint_depths(axis, [("rule", rows), ("rule", rows), ("moved", rows)])
    assert axis.get_legend_handles_labels()[1] == ["rule", "moved"]


def test_accuracies_of_one_name_are_in_one_line() -> None:
    axis = matplotlib.figure.Figure().subplots()
    paint_shares(axis, [("rule", 0.5, 0.4, 0.6), ("rule", 0.6, 0.5, 0.7), ("moved", 0.1, 0.0, 0.2)])
    assert [label.get_text() for label in axis.get_yticklabels()] == ["rule", "moved"]
    x, y = axis.containers[0].lines[0].get_data()
    assert list(x) == [50, 60, 10]
    assert y[0] > 1 > y[1] > 0.5
    assert y[2] == 0


@pytest.mark.parametrize(
    ("shares", "limits"),
    [
        ([0.0, 0.0], (-0.15, 5.0)),
        ([100.0, 100.0], (94.5, 100.165)),
        ([50.0, 50.2], (47.6, 52.6)),
        ([20.0, 60.0], (18.0, 62.0)),
    ],
)
def test_an_axis_in_percent_ends_at_0_and_100_and_is_not_narrow(
    shares: list[float], limits: tuple[float, float]
) -> None:
    axis = matplotlib.figure.Figure().subplots()
    axis.plot([1, 2], shares)
    axis.set_ylabel("exact accuracy, test (%)")
    limit_percent(axis)
    assert axis.get_ylim() == pytest.approx(limits)
