"""The SQL shown with a figure is the SQL that gave its numbers.

Colours, markers and names in figures.
"""

from __future__ import annotations

import itertools

import matplotlib.figure
import pytest

from tests.trm_eval.conftest import Evaluated
from trm_eval.report.ask import ask, filled
from trm_eval.report.canvas import COLOURS, MARKERS, limit_percent, look, looks
from trm_eval.report.figures import paint_curves, paint_depths, paint_shares
from trm_eval.report.page import training_time
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


def test_curves_of_one_colour_have_other_markers_and_neighbours_other_colours() -> None:
    pairs = [(look(number)["color"], look(number)["marker"]) for number in range(len(COLOURS) * len(MARKERS))]
    assert len(set(pairs)) == len(pairs)
    assert all(one[0] != other[0] for one, other in itertools.pairwise(pairs))
    assert pairs[0][1] == "o"
    assert pairs[len(COLOURS)][1] == "s", "a hexagon looks like a circle"


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


def test_unknown_training_time_is_not_zero() -> None:
    assert "unknown" in training_time([None, None])
    assert "2.0 h" in training_time([3600.0, 3600.0])
    assert "1 of 2" in training_time([3600.0, None])


@pytest.mark.parametrize(
    ("shares", "limits"),
    [
        ([0.0, 0.0], (-0.15, 5.0)),
        ([0.0, 0.38], (-0.15, 5.0)),
        ([100.0, 100.0], (94.5, 100.165)),
        ([50.0, 50.2], (47.6, 52.6)),
        ([0.0, 100.0], (-3.0, 103.0)),
        ([20.0, 60.0], (18.0, 62.0)),
    ],
)
@pytest.mark.parametrize("which", ["x", "y"])
def test_an_axis_in_percent_ends_at_0_and_100_and_is_not_narrow(
    shares: list[float], limits: tuple[float, float], which: str
) -> None:
    axis = matplotlib.figure.Figure().subplots()
    if which == "x":
        axis.plot(shares, [1, 2])
        axis.set_xlabel("exact accuracy, test (%)")
    else:
        axis.plot([1, 2], shares)
        axis.set_ylabel("exact accuracy, test (%)")
    limit_percent(axis)
    assert getattr(axis, f"get_{which}lim")() == pytest.approx(limits)


@pytest.mark.parametrize("last", [1, 2, 5, 20, 1_500])
def test_ticks_of_steps_are_where_their_labels_say(last: int) -> None:
    figure = matplotlib.figure.Figure()
    axis = figure.subplots()
    paint_curves(axis, [("run", list(range(1, last + 1)), [0.0] * last)])
    figure.draw_without_rendering()
    labels = [
        float(label.get_text().replace(",", "").replace("\u2212", "-")) for label in axis.get_xticklabels()
    ]
    assert labels == pytest.approx(list(axis.get_xticks()))
