"""The page of all runs, which follows those that train."""

from __future__ import annotations

import streamlit as st

from trm_eval.serve.runs import STATES, Filter, choices, runs_now
from trm_eval.serve.screens.parts import (
    CURVES,
    EVALUATIONS,
    FOLLOW_S,
    errors_shown,
    frame_of,
    fresh,
    layout,
    link,
    plain,
    selected,
    show_sql,
    table_key,
)

COLUMNS = (
    "run", "state", "progress", "step", "total_steps", "examples_per_s", "seconds_left", "loss", "best_validation",
    "heartbeat", "differs", "dataset", "label", "experiment", "scale", "data", "seed", "parameters", "train_seconds",
)  # fmt: skip


def show() -> None:
    """Show it."""
    st.subheader("Runs")
    wanted = _filter()
    follow = st.toggle("Follow", value=True, help=f"Look again every {FOLLOW_S} seconds")
    st.fragment(_table, run_every=FOLLOW_S if follow else None)(wanted)


def _filter() -> Filter:
    known = fresh(choices)
    names, more = st.columns([5, 1], vertical_alignment="bottom")
    typed = names.text_input(
        "Name", placeholder="run or experiment: beginnings or globs, such as exp01 *-s0", key="names"
    )
    with more.popover("More", use_container_width=True):
        experiments = st.multiselect("Experiment", known["experiment"])
        scales = st.multiselect("Scale", known["scale"])
        data = st.multiselect("Data", known["data"])
        states = st.multiselect("State", STATES)
    return Filter(typed, tuple(experiments), tuple(scales), tuple(data), tuple(states))


def _table(wanted: Filter) -> None:
    with errors_shown():
        asked = fresh(runs_now, wanted)
        if not asked.rows:
            st.info(f"No such runs under {plain(layout().place)}.")
            show_sql(asked.query)
            return
        names = [row["run"] for row in asked.rows]
        rows = [
            row | {"best_validation": None if (share := row["best_validation"]) is None else 100 * share}
            for row in asked.rows
        ]
        number = st.column_config.NumberColumn
        event = st.dataframe(
            frame_of(rows, COLUMNS),
            key=table_key("runs", names),
            hide_index=True,
            on_select="rerun",
            selection_mode="multi-row",
            column_config={
                "run": st.column_config.TextColumn(pinned=True, width="medium"),
                "progress": st.column_config.ProgressColumn(format="percent", width="small"),
                "step": number(format="localized"),
                "total_steps": number("of", format="localized"),
                "examples_per_s": number("examples/s", format="%.1f"),
                "seconds_left": number("left (s)", format="%.0f"),
                "loss": number("loss (train)", format="%.4f"),
                "best_validation": number("best exact % (validation)", format="%.2f"),
                "heartbeat": st.column_config.DatetimeColumn("heard of", format="distance"),
                "parameters": number(format="compact"),
                "train_seconds": number("trained (s)", format="%.0f"),
            },
        )
        if places := selected(event):
            st.session_state["chosen"] = [names[place] for place in places]
            st.caption(f"{len(places)} selected. Compare:")
        else:
            st.caption(f"{len(names)} runs. Select some to compare them:")
        with st.container(horizontal=True):
            link(CURVES, "Learning curves")
            link(EVALUATIONS, "Evaluations")
        show_sql(asked.query)
