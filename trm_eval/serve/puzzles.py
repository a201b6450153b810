"""Page of the puzzles of an evaluation."""

from __future__ import annotations

import shlex
from typing import Any

import streamlit as st

from trm_data.storage.root import Layout
from trm_eval.report.ask import Asked, ask
from trm_eval.serve.evaluations import evaluations_of, labels_of
from trm_eval.serve.parts import (
    choose_rows,
    errors_shown,
    fresh,
    layout,
    names_of_runs,
    plain,
    show_drawing,
    show_sql,
)
from trm_eval.show import Answered, answered_puzzles

COLUMNS = ("row", "exact", "wrong_cells", "rating", "halt_step", "clues", "path_length")
OUTCOMES = {"all": "true", "solved": "exact", "failed": "NOT exact"}
"""SQL condition of each outcome of a puzzle."""
MOST_ROWS = 10_000
"""Maximum number of puzzles in the list."""

RANGE_SQL = """\
SELECT count(*) AS puzzles, count_if(exact) AS solved, min(rating) AS lowest, max(rating) AS highest
FROM predicted_puzzles
WHERE evaluation = ?"""

RUN_SQL = "SELECT run FROM evals WHERE evaluation = ?"

PUZZLES_SQL = f"""\
SELECT row, exact, wrong_cells, cells, rating, clues, path_length, halt_step, group_index, augmentation
FROM predicted_puzzles
WHERE evaluation = ? AND {{condition}}
ORDER BY row
LIMIT {MOST_ROWS}"""


def range_of(layout: Layout, evaluation: str, problems: list[str]) -> Asked:
    """Return the number of puzzles of an evaluation, the number solved, and the range of ratings."""
    return ask(
        layout, "puzzles and their ratings", RANGE_SQL, [evaluation], problems, evaluations=[evaluation]
    )


def run_of(layout: Layout, evaluation: str, problems: list[str]) -> str | None:
    """Return the run of an evaluation; None if no evaluation has this id."""
    rows = ask(layout, "run", RUN_SQL, [evaluation], problems, evaluations=[evaluation]).rows
    return rows[0]["run"] if rows else None


def puzzles_of(
    layout: Layout,
    evaluation: str,
    outcome: str,
    ratings: tuple[float, float] | None,
    problems: list[str],
) -> Asked:
    """Return the first puzzles that match a filter.

    Args:
        layout: The root.
        evaluation: Id of the evaluation.
        outcome: One of `OUTCOMES`.
        ratings: Lowest and highest rating; None for all, including puzzles without a rating.
        problems: List of what was left out, extended here.
    """
    condition, values = OUTCOMES[outcome], [evaluation]
    if ratings is not None:
        condition, values = f"{condition} AND rating BETWEEN ? AND ?", [evaluation, *ratings]
    sql = PUZZLES_SQL.format(condition=condition)
    return ask(layout, "puzzles", sql, values, problems, evaluations=[evaluation])


def show() -> None:
    """Show the page."""
    st.subheader("Puzzles")
    evaluation = _evaluation()
    if evaluation is None:
        st.info("No run was evaluated yet: `trm-eval run RUN`")
        return
    listed, shown = st.columns([2, 3], gap="large")
    with listed:
        row = _choose(evaluation["evaluation"])
    if row is None:
        shown.info("No such puzzles.")
        return
    st.query_params["evaluation"], st.query_params["row"] = evaluation["evaluation"], str(row)
    with shown, errors_shown():
        _puzzle(evaluation["run"], *answered_puzzles(layout(), evaluation["evaluation"], index=row))


def _evaluation() -> dict[str, Any] | None:
    """Return the evaluation of the URL, or the previous choice, or the first of a run; only one run is queried."""
    runs = fresh(names_of_runs, True)
    if not runs:
        return None
    before_run, before = st.session_state.get("evaluated", (None, None))
    before = st.query_params.get("evaluation") or before
    key = "shown run"
    if key not in st.session_state:
        if st.query_params.get("evaluation"):
            before_run = fresh(run_of, before)
        st.session_state[key] = before_run if before_run in runs else runs[0]
    chosen_run, chosen = st.columns(2)
    run = chosen_run.selectbox("Run", runs, key=key)
    rows = fresh(evaluations_of, [run]).rows
    if not rows:
        return None
    labels = labels_of(rows)
    by_id = {row["evaluation"]: row for row in rows}
    key = f"shown evaluation of {run}"
    if key not in st.session_state:
        st.session_state[key] = before if before in by_id else rows[0]["evaluation"]
    return by_id[chosen.selectbox("Evaluation", list(by_id), format_func=lambda each: labels[each], key=key)]


def _choose(evaluation: str) -> int | None:
    """Return the row to show: the selected one, or that of the URL, or the first."""
    (known,) = fresh(range_of, evaluation).rows
    outcome = st.segmented_control("Show", list(OUTCOMES), default="all", required=True)
    lowest, highest = known["lowest"], known["highest"]
    ratings = None
    if lowest is not None and lowest < highest:
        low, high = st.slider(
            "Rating (guesses that a solver needs)",
            float(lowest),
            float(highest),
            (float(lowest), float(highest)),
        )
        ratings = None if (low, high) == (lowest, highest) else (low, high)
    asked = fresh(puzzles_of, evaluation, outcome, ratings)
    rows = asked.rows
    if not rows:
        show_sql(asked.query)
        return None
    places = choose_rows(
        "puzzles",
        rows,
        COLUMNS,
        [evaluation, *(row["row"] for row in rows)],
        {
            "wrong_cells": st.column_config.NumberColumn("wrong cells"),
            "halt_step": st.column_config.NumberColumn("halts after", help="empty: never"),
        },
        several=False,
        height=360,
    )
    of = f"{known['puzzles']:,} puzzles (at most {MOST_ROWS:,} are listed)"
    st.caption(f"{len(rows):,} of {of}; {known['solved']:,} of all are solved. Select one.")
    show_sql(asked.query)
    if places:
        return rows[places[0]]["row"]
    asked_for = st.query_params.get("row", "")
    listed = [row["row"] for row in rows]
    return int(asked_for) if asked_for.isdecimal() and int(asked_for) in listed else listed[0]


def _puzzle(run: str, puzzle: Answered) -> None:
    st.markdown(plain(puzzle.says))
    drawings = {"given": puzzle.puzzle, "answer": puzzle.prediction}
    if puzzle.exact is not None:
        drawings["solution"] = puzzle.solution
    with st.container(horizontal=True):
        for name, drawing in drawings.items():
            show_drawing(name, drawing)
    st.caption("This command draws every cycle of the answer:")
    where = f"{shlex.quote(run)} --split {puzzle.split} --row {puzzle.row}"
    st.code(f"trm-eval predict {where} --trace --out row-{puzzle.row}.gif", language=None)
