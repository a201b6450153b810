"""Page of all runs with their state; updates running ones."""

from __future__ import annotations

import streamlit as st

from trm_data.storage.root import Layout
from trm_eval.report.ask import Asked, ask
from trm_eval.serve.parts import (
    CURVES,
    EVALUATIONS,
    FOLLOW_S,
    choose_rows,
    errors_shown,
    fresh,
    layout,
    link,
    plain,
    show_sql,
)
from trm_train.runs.status import STALLED_S

COLUMNS = (
    "run", "state", "progress", "step", "total_steps", "examples_per_s", "seconds_left", "loss", "best_validation",
    "best_optimal_share", "heartbeat", "varies",
    "differs", "dataset", "label", "experiment", "scale", "data", "seed", "parameters", "train_seconds",
)  # fmt: skip

RUNS_SQL = f"""\
WITH listed AS (
    SELECT
        r.run,
        CASE
            WHEN r.run IN (SELECT run FROM stored.runs WHERE file LIKE 'results/%') THEN 'results only'
            WHEN r.state IS NULL THEN 'new'
            WHEN r.state = 'finished' THEN CASE WHEN r.step >= r.total_steps THEN 'done' ELSE 'stopped' END
            WHEN r.state = 'running' AND r.heartbeat < now() - INTERVAL {STALLED_S:.0f} SECONDS THEN 'stalled'
            ELSE r.state
        END AS state,
        r.step,
        r.total_steps,
        r.step / nullif(r.total_steps, 0) AS progress,
        r.examples_per_s,
        CASE
            WHEN r.state = 'running' THEN (r.total_steps - r.step) * r.global_batch_size / nullif(r.examples_per_s, 0)
        END AS seconds_left,
        r.loss,
        r.best_validation,
        r.best_optimal_share,
        r.heartbeat,
        r.experiment,
        r.scale,
        r.data,
        r.dataset,
        r.differs,
        (
            SELECT string_agg(x.experiment_group || ': ' || x.varies, '; ' ORDER BY x.experiment)
            FROM experiments AS x
            WHERE x.runs_of = r.experiment AND x.identity = r.identity AND x.varies <> ''
        ) AS varies,
        r.label,
        r.seed,
        r.parameters,
        r.train_seconds
    FROM runs AS r
)
SELECT * FROM listed
WHERE contains(concat_ws(' ', run, experiment, varies), ?)
ORDER BY state = 'running' DESC, heartbeat DESC NULLS LAST, run"""


def runs_now(layout: Layout, names: str, problems: list[str]) -> Asked:
    """Return a row for each run that matches names, running ones first.

    Args:
        layout: The root.
        names: A part of the name of a run, an experiment or a sweep; empty: all.
        problems: List of what was left out, extended here.
    """
    return ask(layout, "runs as they are now", RUNS_SQL, [names], problems)


def show() -> None:
    """Show the page."""
    st.subheader("Runs")
    names = st.text_input("Name", placeholder="a part of a run, experiment or sweep", key="names")
    follow = st.toggle("Follow", value=True, help=f"Look again every {FOLLOW_S} seconds")
    st.fragment(_table, run_every=FOLLOW_S if follow else None)(names)


def _table(names: str) -> None:
    with errors_shown():
        asked = fresh(runs_now, names)
        if not asked.rows:
            st.info(f"No such runs under {plain(layout().place)}.")
            show_sql(asked.query)
            return
        runs = [row["run"] for row in asked.rows]
        number = st.column_config.NumberColumn
        places = choose_rows(
            "runs",
            asked.rows,
            COLUMNS,
            runs,
            {
                "run": st.column_config.TextColumn(pinned=True, width="medium"),
                "progress": st.column_config.ProgressColumn(format="percent", width="small"),
                "step": number(format="localized"),
                "total_steps": number("of", format="localized"),
                "examples_per_s": number("examples/s", format="%.1f"),
                "seconds_left": number("left (s)", format="%.0f"),
                "loss": number("loss (train)", format="%.4f"),
                "best_validation": number("best exact % (validation)", format="%.2f"),
                "best_optimal_share": number("best right % (validation)", format="%.2f"),
                "heartbeat": st.column_config.DatetimeColumn("heard of", format="distance"),
                "parameters": number(format="compact"),
                "train_seconds": number("trained (s)", format="%.0f"),
            },
            percents=("best_validation", "best_optimal_share"),
        )
        if places:
            st.session_state["chosen"] = [runs[place] for place in places]
            st.caption(f"{len(places)} selected. Compare:")
        else:
            st.caption(f"{len(runs)} runs. Select some to compare them:")
        with st.container(horizontal=True):
            link(CURVES, "Learning curves")
            link(EVALUATIONS, "Evaluations")
        show_sql(asked.query)
