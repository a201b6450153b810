"""The page that compares how runs learn."""

from __future__ import annotations

from typing import Any

import streamlit as st

from trm_eval.serve.runs import MEASURES, Over, curves_of, draw_curves, names_of_runs
from trm_eval.serve.screens.parts import (
    CURVES,
    FOLLOW_S,
    choose_runs,
    errors_shown,
    fresh,
    show_figure,
    show_sql,
)

FIRST = list(MEASURES)[:2]
OVERS: dict[str, Over] = {"training step": "step", "training time": "seconds"}


def show() -> None:
    """Show it."""
    st.subheader("Learning curves")
    runs = choose_runs(CURVES, fresh(names_of_runs))
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
