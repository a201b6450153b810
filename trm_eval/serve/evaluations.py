"""Page of evaluations of runs: accuracies with intervals, by depth and by rating."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from trm_data.storage.root import Layout
from trm_eval.report.ask import Asked, ask
from trm_eval.report.blocks import Query
from trm_eval.report.breakdown import RATING_SQL, paint_ratings
from trm_eval.report.canvas import draw
from trm_eval.report.figures import paint_depths, paint_shares
from trm_eval.report.study import DEPTH_SQL
from trm_eval.serve.parts import (
    EVALUATIONS,
    PUZZLES,
    choose_rows,
    choose_runs,
    fresh,
    link,
    show_figure,
    show_sql,
)

EVALUATIONS_SQL = """\
SELECT
    run,
    exact_accuracy,
    wilson_low(exact_count, count) AS exact_low,
    wilson_high(exact_count, count) AS exact_high,
    optimal_share,
    cell_accuracy,
    count,
    supervision_steps,
    how,
    step,
    weights,
    split,
    dataset,
    CASE WHEN exact_count > 0 THEN q_halt_accuracy END AS q_halt_accuracy,
    seconds,
    created_at,
    evaluation
FROM evals
JOIN (SELECT unnest(wanted) AS run, generate_subscripts(wanted, 1) AS place FROM (SELECT ? AS wanted)) USING (run)
ORDER BY place, as_published DESC, split = 'test' DESC, step DESC, supervision_steps, created_at DESC,
         evaluation"""

COLUMNS = (
    "run", "exact_accuracy", "exact_low", "exact_high", "optimal_share", "cell_accuracy", "count",
    "supervision_steps", "how", "step", "weights", "split", "dataset", "q_halt_accuracy", "seconds",
    "created_at", "evaluation",
)  # fmt: skip
SHARES = ("exact_accuracy", "exact_low", "exact_high", "optimal_share", "cell_accuracy", "q_halt_accuracy")
TOLD_APART = ("step", "weights", "dataset", "split", "supervision_steps", "how")
"""Columns that distinguish the evaluations of one run."""


@dataclass(frozen=True)
class Figure:
    """A figure with the SQL that gave its numbers."""

    title: str
    svg: bytes
    query: Query


def evaluations_of(layout: Layout, runs: Sequence[str], problems: list[str]) -> Asked:
    """Return a row for each evaluation of runs, in their order, the default evaluation of each first."""
    return ask(layout, "evaluations", EVALUATIONS_SQL, [list(runs)], problems)


def first_of_each(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first evaluation of each run."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        found.setdefault(row["run"], row)
    return list(found.values())


def labels_of(rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the label of each evaluation: its run, and for several evaluations of a run, what differs."""
    runs = Counter(row["run"] for row in rows)
    differ = [column for column in TOLD_APART if len({row[column] for row in rows}) > 1]
    return {
        row["evaluation"]: row["run"]
        if runs[row["run"]] == 1
        else ", ".join([row["run"], *(_said(column, row[column]) for column in differ)])
        for row in rows
    }


def _said(column: str, value: Any) -> str:
    match column:
        case "step":
            return f"step {value:,}"
        case "supervision_steps":
            return f"{value} supervision steps"
        case _:
            return str(value)


def figures_of(
    layout: Layout, asked: Asked, rows: Sequence[dict[str, Any]], problems: list[str]
) -> list[Figure]:
    """Return the figures of evaluations: with intervals, by depth, and by rating if the catalog has ratings.

    Args:
        layout: The root.
        asked: Result of `evaluations_of`.
        rows: Its rows to show.
        problems: List of what was left out, extended here.
    """
    scored = [row for row in rows if row["exact_accuracy"] is not None]
    if not scored:
        return []
    names = labels_of(scored)
    shares = [
        (names[row["evaluation"]], row["exact_accuracy"], row["exact_low"], row["exact_high"])
        for row in scored
    ]
    high = max(1.4, 0.32 * len(shares) + 0.8)
    drawn = draw(lambda axis: paint_shares(axis, shares), height=high)
    found = [Figure("Exact accuracy, with 95% intervals (Wilson)", drawn, asked.query)]
    depths = ask(
        layout,
        "accuracy after every supervision step",
        DEPTH_SQL,
        [list(names)],
        problems,
        evaluations=list(names),
    )
    if max((row["depth"] for row in depths.rows), default=0) > 1:
        tests = [(name, _of(depths, evaluation)) for evaluation, name in names.items()]
        drawn = draw(lambda axis: paint_depths(axis, tests))
        found.append(Figure("Exact accuracy by supervision step", drawn, depths.query))
    ratings = ask(layout, "accuracy by rating", RATING_SQL, [list(names)], problems, evaluations=list(names))
    if len({row["rating_bucket"] for row in ratings.rows}) > 1:
        rated = [(name, _of(ratings, evaluation)) for evaluation, name in names.items()]
        drawn = draw(lambda axis: paint_ratings(axis, rated))
        found.append(Figure("Exact accuracy by rating: guesses that a solver needs", drawn, ratings.query))
    return found


def _of(asked: Asked, evaluation: str) -> list[dict[str, Any]]:
    return [row for row in asked.rows if row["evaluation"] == evaluation]


def show() -> None:
    """Show the page."""
    st.subheader("Evaluations")
    runs = choose_runs(EVALUATIONS)
    if not runs:
        st.info("Choose runs.")
        return
    asked = fresh(evaluations_of, runs)
    if not asked.rows:
        st.info("None of these runs was evaluated yet.")
        st.code(shlex.join(["trm-eval", "run", *runs]), language=None)
        show_sql(asked.query)
        return
    chosen = _table(asked) or first_of_each(asked.rows)
    st.session_state["evaluated"] = chosen[0]["run"], chosen[0]["evaluation"]
    with st.container(horizontal=True):
        link(PUZZLES, "Puzzles of the first that is shown")
    figures = fresh(_figures, tuple(row["evaluation"] for row in chosen), tuple(runs))
    if not figures:
        st.info("No row of these has a solution to compare with.")
    columns = st.columns(2, gap="large")
    for number, figure in enumerate(figures):
        with columns[number % 2]:
            show_figure(figure.title, figure.svg)
            show_sql(figure.query)


def _table(asked: Asked) -> list[dict[str, Any]]:
    """Show the table of evaluations; return the selected ones."""
    number = st.column_config.NumberColumn
    places = choose_rows(
        "evaluations",
        asked.rows,
        COLUMNS,
        [row["evaluation"] for row in asked.rows],
        {
            "run": st.column_config.TextColumn(pinned=True, width="medium"),
            "exact_accuracy": number("exact %", format="%.2f"),
            "exact_low": number("95% from", format="%.2f", help="Wilson's interval of the exact accuracy"),
            "exact_high": number("95% to", format="%.2f"),
            "optimal_share": number("right %", format="%.2f", help="answers as good as the label"),
            "cell_accuracy": number("cells %", format="%.2f"),
            "count": number("puzzles", format="localized"),
            "supervision_steps": number("steps", help="supervision steps of every puzzle"),
            "step": number("checkpoint", format="localized"),
            "q_halt_accuracy": number("halting right %", format="%.2f"),
            "seconds": number("seconds", format="%.0f"),
            "created_at": st.column_config.DatetimeColumn("made", format="distance"),
        },
        percents=SHARES,
    )
    show_sql(asked.query)
    st.caption("Select rows to compare those; else the usual evaluation of each run is shown.")
    return [asked.rows[place] for place in places]


def _figures(
    layout: Layout, evaluations: tuple[str, ...], runs: tuple[str, ...], problems: list[str]
) -> list[Figure]:
    asked = fresh(evaluations_of, list(runs))  # the table has just asked for it
    rows = [row for row in asked.rows if row["evaluation"] in evaluations]
    return figures_of(layout, asked, rows, problems)
