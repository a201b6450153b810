"""The page that compares evaluations of runs."""

from __future__ import annotations

import shlex
from typing import Any

import streamlit as st

from trm_data.storage.root import Layout
from trm_eval.report.ask import Asked
from trm_eval.serve.evaluations import Figure, evaluations_of, figures_of, first_of_each
from trm_eval.serve.runs import names_of_runs
from trm_eval.serve.screens.parts import (
    EVALUATIONS,
    PUZZLES,
    choose_runs,
    frame_of,
    fresh,
    link,
    selected,
    show_figure,
    show_sql,
    table_key,
)

COLUMNS = (
    "run", "exact_accuracy", "exact_low", "exact_high", "cell_accuracy", "count", "supervision_steps", "how", "step",
    "weights", "split", "dataset", "q_halt_accuracy", "seconds", "traced", "created_at", "evaluation",
)  # fmt: skip
SHARES = ("exact_accuracy", "exact_low", "exact_high", "cell_accuracy", "q_halt_accuracy")


def show() -> None:
    """Show it."""
    st.subheader("Evaluations")
    runs = choose_runs(EVALUATIONS, fresh(names_of_runs))
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
    st.session_state["evaluation"] = chosen[0]["evaluation"]
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
    """The evaluations; returns those that are selected."""
    rows = [
        row | {name: None if row[name] is None else 100 * row[name] for name in SHARES} for row in asked.rows
    ]
    number = st.column_config.NumberColumn
    event = st.dataframe(
        frame_of(rows, COLUMNS),
        key=table_key("evaluations", [row["evaluation"] for row in rows]),
        hide_index=True,
        on_select="rerun",
        selection_mode="multi-row",
        column_config={
            "run": st.column_config.TextColumn(pinned=True, width="medium"),
            "exact_accuracy": number("exact %", format="%.2f"),
            "exact_low": number("95% from", format="%.2f", help="Wilson's interval of the exact accuracy"),
            "exact_high": number("95% to", format="%.2f"),
            "cell_accuracy": number("cells %", format="%.2f"),
            "count": number("puzzles", format="localized"),
            "supervision_steps": number("steps", help="supervision steps of every puzzle"),
            "step": number("checkpoint", format="localized"),
            "q_halt_accuracy": number("halting right %", format="%.2f"),
            "seconds": number("seconds", format="%.0f"),
            "created_at": st.column_config.DatetimeColumn("made", format="distance"),
        },
    )
    show_sql(asked.query)
    st.caption("Select rows to compare those; else the usual evaluation of each run is shown.")
    return [asked.rows[place] for place in selected(event)]


def _figures(
    layout: Layout, evaluations: tuple[str, ...], runs: tuple[str, ...], problems: list[str]
) -> list[Figure]:
    asked = fresh(evaluations_of, list(runs))  # the table has just asked for it
    rows = [row for row in asked.rows if row["evaluation"] in evaluations]
    return figures_of(layout, asked, rows, problems)
