"""Page of test-time scaling: accuracy against network calls, and what further supervision steps keep and lose."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from trm_data.storage.root import Layout
from trm_eval.report.ask import Asked, ask
from trm_eval.report.breakdown import SCALING_SQL, paint_scaling, scaling_curves
from trm_eval.report.canvas import draw_svg
from trm_eval.serve.parts import SCALING, choose_runs, frame_of, fresh, show_figure, show_sql

RETENTION_SQL = """\
SELECT run, precision, samples, answers, depth, solved_share, ever_share, lost_share, evaluation
FROM retention
WHERE list_contains(?, run) AND split = 'test' AND weights = 'ema'
QUALIFY depth & (depth - 1) = 0 OR depth = max(depth) OVER (PARTITION BY evaluation)
ORDER BY run, evaluation, depth"""
POINTS = (
    "run", "precision", "selection", "depth", "samples_per_row", "exact_accuracy", "exact_low", "exact_high",
    "oracle_exact_accuracy", "network_calls", "flops", "seconds_of", "count", "evaluation",
)  # fmt: skip
KEPT = (
    "run",
    "precision",
    "samples",
    "depth",
    "solved_share",
    "ever_share",
    "lost_share",
    "answers",
    "evaluation",
)


def scaling_of(layout: Layout, runs: Sequence[str], problems: list[str]) -> Asked:
    """Return the tests of runs after each number of steps and samples."""
    return ask(layout, "accuracy by network calls", SCALING_SQL, [list(runs)], problems)


def retention_of(layout: Layout, runs: Sequence[str], problems: list[str]) -> Asked:
    """Return what further steps keep: a row for 1, 2, 4, ... steps of each test."""
    says = "right, ever right, and lost again"
    return ask(layout, says, RETENTION_SQL, [list(runs)], problems)


def draw_scaling(runs: Sequence[str], asked: Asked) -> bytes:
    """Draw the figure of `scaling_of` as SVG."""
    curves = scaling_curves({run: run for run in runs}, asked.rows)
    return draw_svg(lambda axis: paint_scaling(axis, curves))


def show() -> None:
    """Show the page."""
    st.subheader("Test-time scaling")
    runs = choose_runs(SCALING)
    asked = fresh(scaling_of, runs)
    if not asked.rows:
        st.info("None of these runs was tested with several numbers of steps or samples yet.")
        st.code("trm-eval run RUN --steps 1,4,16,64 --samples 1,8,32", language=None)
        show_sql(asked.query)
        return
    show_figure("Exact accuracy against network calls a puzzle", draw_scaling(runs, asked))
    st.dataframe(frame_of(asked.rows, POINTS), hide_index=True)
    show_sql(asked.query)
    kept = fresh(retention_of, runs)
    if kept.rows:
        st.markdown("**Answers that are right, have been right, and are lost again**")
        st.dataframe(frame_of(kept.rows, KEPT), hide_index=True)
        show_sql(kept.query)
