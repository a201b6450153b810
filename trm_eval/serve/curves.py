"""Page of learning curves: metrics of runs over steps or time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from trm_data.storage.root import Layout
from trm_eval.report.ask import Asked, ask
from trm_eval.report.canvas import draw
from trm_eval.report.figures import paint_curves
from trm_eval.serve.parts import (
    CURVES,
    FOLLOW_S,
    choose_runs,
    errors_shown,
    fresh,
    show_figure,
    show_sql,
)

Over = Literal["step", "seconds"]

POINTS = 240
"""Maximum number of windows of a curve; a figure cannot show more."""

CURVES_SQL = f"""\
WITH chosen AS (
    SELECT
        *,
        CASE split WHEN 'train' THEN (max(step) OVER (PARTITION BY run, split) - 1) // {POINTS} + 1 ELSE 1 END AS wide
    FROM train_metrics
    WHERE dataset IS NULL AND list_contains(?, run)
)
SELECT
    run,
    split,
    max(step) AS step,
    max(seconds) AS seconds,
    sum(lm_loss_sum) / nullif(sum(global_batch_size), 0) AS lm_loss,
    sum(exact_count) / nullif(sum(count), 0) AS exact_accuracy,
    sum(accuracy_sum) / nullif(sum(count), 0) AS cell_accuracy,
    sum(steps_sum) / nullif(sum(count), 0) AS mean_steps,
    sum(global_batch_size) / nullif(sum(step_s), 0) AS examples_per_s
FROM chosen
GROUP BY run, split, (step - 1) // wide
ORDER BY run, split, step"""


@dataclass(frozen=True)
class Measure:
    """Quantity shown by a curve.

    Attributes:
        title: Title of the curve.
        column: Column of `CURVES_SQL`.
        split: train or validation.
        unit: Unit of the axis.
        times: Factor for the column.
    """

    title: str
    column: str
    split: str
    unit: str
    times: float = 1.0


MEASURES = {
    measure.title: measure
    for measure in (
        Measure("Loss in training", "lm_loss", "train", "cross-entropy (nats a cell)"),
        Measure("Exact accuracy in validation", "exact_accuracy", "validation", "exact accuracy (%)", 100),
        Measure("Exact accuracy in training", "exact_accuracy", "train", "exact accuracy (%)", 100),
        Measure("Cell accuracy in validation", "cell_accuracy", "validation", "cell accuracy (%)", 100),
        Measure("Supervision steps in training", "mean_steps", "train", "steps a puzzle"),
        Measure("Speed in training", "examples_per_s", "train", "examples/s"),
    )
}

FIRST = list(MEASURES)[:2]
OVERS: dict[str, Over] = {"training step": "step", "training time": "seconds"}


def curves_of(layout: Layout, runs: Sequence[str], problems: list[str]) -> Asked:
    """Return the curves of runs: a row for each window of training steps and each validation."""
    says = "training in windows of steps, and every validation"
    return ask(layout, says, CURVES_SQL, [list(runs)], problems)


def draw_curves(
    runs: Sequence[str], rows: Sequence[dict[str, Any]], measure: Measure, over: Over
) -> bytes | None:
    """Draw the curves of runs as SVG, coloured by position; return None if there are no points.

    Args:
        runs: Runs, in the order of their colours.
        rows: Rows of `curves_of`.
        measure: Quantity to show.
        over: Training step or training time.
    """
    curves: list[tuple[str, list[float], list[float]]] = []
    for run in runs:
        own = [
            (row[over], measure.times * row[measure.column])
            for row in rows
            if row["run"] == run and row["split"] == measure.split
            if row[over] is not None and row[measure.column] is not None
        ]
        curves.append((run, [x for x, _ in own], [y for _, y in own]))
    if not any(x for _, x, _ in curves):
        return None

    def paint(axis: Any) -> None:
        paint_curves(axis, curves)
        axis.set_xlabel("training step" if over == "step" else "training time (s)")
        axis.set_ylabel(measure.unit)

    return draw(paint)


def show() -> None:
    """Show the page."""
    st.subheader("Learning curves")
    runs = choose_runs(CURVES)
    shown = st.multiselect("Curves", list(MEASURES), default=FIRST)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        over = st.segmented_control("Over", list(OVERS), default="training step", required=True)
        follow = st.toggle("Follow", value=True, help=f"Look again every {FOLLOW_S} seconds")
    if not runs or not shown:
        st.info("Choose runs and curves.")
        return
    st.fragment(_figures, run_every=FOLLOW_S if follow else None)(runs, shown, OVERS[str(over)])


@st.cache_resource(max_entries=60, show_spinner=False)
def _drawn(runs: list[str], title: str, over: Over, newest: str, _rows: list[dict[str, Any]]) -> bytes | None:
    return draw_curves(runs, _rows, MEASURES[title], over)


def _figures(runs: list[str], shown: list[str], over: Over) -> None:
    with errors_shown():
        asked = fresh(curves_of, runs)
        newest = repr([(row["run"], row["split"], row["step"]) for row in asked.rows])
        columns = st.columns(min(len(shown), 2))
        for number, title in enumerate(shown):
            with columns[number % len(columns)]:
                svg = _drawn(runs, title, over, newest, asked.rows)
                if svg is None:
                    st.info(f"{title}: these runs have no rows yet.")
                else:
                    show_figure(title, svg)
        show_sql(asked.query)
