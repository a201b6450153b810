"""Page of all runs with their state; updates running ones."""

from __future__ import annotations

import re
from dataclasses import dataclass

import streamlit as st

from trm_data.storage.root import Layout
from trm_eval.report.ask import Asked, ask
from trm_eval.serve.parts import (
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
from trm_train.runs.status import STALLED_S

COLUMNS = (
    "run", "state", "progress", "step", "total_steps", "examples_per_s", "seconds_left", "loss", "best_validation",
    "best_optimal_share", "heartbeat", "varies",
    "differs", "dataset", "label", "experiment", "scale", "data", "seed", "parameters", "train_seconds",
)  # fmt: skip
STATES = ("running", "stalled", "new", "stopped", "failed", "done", "results only")
"""States shown by `trm-train status`, and that of a run with only published results."""

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
WHERE {{condition}}
ORDER BY state = 'running' DESC, heartbeat DESC NULLS LAST, run"""

CHOICES_SQL = """\
SELECT list(DISTINCT run ORDER BY run) AS run, list(DISTINCT experiment ORDER BY experiment) AS experiment,
       list(DISTINCT scale ORDER BY scale) AS scale, list(DISTINCT data ORDER BY data) AS data
FROM runs"""


@dataclass(frozen=True)
class Filter:
    """Filter for runs; an empty field matches all.

    Attributes:
        names: Prefixes or globs of names of runs, experiments or sweeps, separated by spaces or commas.
        experiments: Experiments of the runs.
        scales: Scales of the runs.
        data: Data of the runs.
        states: States from `STATES`.
    """

    names: str = ""
    experiments: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    states: tuple[str, ...] = ()

    def condition(self) -> tuple[str, list[object]]:
        """Return the filter as SQL over `listed`, with its values."""
        conditions: list[str] = []
        values: list[object] = []
        if patterns := [_glob(word) for word in re.split(r"[\s,]+", self.names) if word]:
            either = " OR ".join(["run GLOB ? OR experiment GLOB ? OR varies GLOB ?"] * len(patterns))
            conditions.append(f"({either})")
            values += [pattern for pattern in patterns for _ in range(3)]
        parts = {
            "experiment": self.experiments,
            "scale": self.scales,
            "data": self.data,
            "state": self.states,
        }
        for column, allowed in parts.items():
            if allowed:
                conditions.append(f"list_contains(?, {column})")
                values.append(list(allowed))
        return " AND ".join(conditions) or "true", values


def _glob(word: str) -> str:
    return word if any(sign in word for sign in "*?[") else f"{word}*"


def runs_now(layout: Layout, wanted: Filter, problems: list[str]) -> Asked:
    """Return a row for each run that matches a filter, running ones first."""
    condition, values = wanted.condition()
    return ask(layout, "runs as they are now", RUNS_SQL.format(condition=condition), values, problems)


def choices(layout: Layout, problems: list[str]) -> dict[str, list[str]]:
    """Return the existing names of runs, experiments, scales and data."""
    (row,) = ask(layout, "what to choose from", CHOICES_SQL, [], problems).rows
    return {column: [name for name in names or [] if name] for column, names in row.items()}


def show() -> None:
    """Show the page."""
    st.subheader("Runs")
    wanted = _filter()
    follow = st.toggle("Follow", value=True, help=f"Look again every {FOLLOW_S} seconds")
    st.fragment(_table, run_every=FOLLOW_S if follow else None)(wanted)


def _filter() -> Filter:
    known = fresh(choices)
    names, more = st.columns([5, 1], vertical_alignment="bottom")
    typed = names.text_input(
        "Name", placeholder="run, experiment or sweep: beginnings or globs, such as exp01 *-s0", key="names"
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
        shares = ("best_validation", "best_optimal_share")
        rows = [
            row | {name: None if (share := row[name]) is None else 100 * share for name in shares}
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
                "best_optimal_share": number("best right % (validation)", format="%.2f"),
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
