"""Runs as they are now: which there are, how they go, and how they learn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trm_data.storage.root import Layout
from trm_eval.report.ask import Asked, ask
from trm_eval.report.canvas import draw_svg
from trm_eval.report.figures import paint_curves
from trm_eval.report.training import CURVES_SQL
from trm_train.runs.overview import STALLED_S

STATES = ("running", "stalled", "new", "stopped", "failed", "done", "results only")
"""As `trm-train status` says them, and that of a run of which only published results are there."""

RUNS_SQL = f"""\
WITH shown AS (
    SELECT
        r.run,
        CASE
            WHEN r.run NOT IN (SELECT run FROM runs_live) THEN 'results only'
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
        r.heartbeat,
        r.experiment,
        r.scale,
        r.data,
        r.dataset,
        r.differs,
        r.label,
        r.seed,
        r.parameters,
        r.train_seconds
    FROM runs AS r
)
SELECT * FROM shown
WHERE {{condition}}
ORDER BY state = 'running' DESC, heartbeat DESC NULLS LAST, run"""

NAMES_SQL = """\
SELECT run
FROM runs
LEFT JOIN (SELECT DISTINCT run, true AS tested FROM evals) USING (run)
ORDER BY tested DESC NULLS LAST, state = 'running' DESC NULLS LAST, heartbeat DESC NULLS LAST, run"""
"""It reads no metrics, which are most of the files of a root."""

CHOICES_SQL = """\
SELECT list(DISTINCT run ORDER BY run) AS run, list(DISTINCT experiment ORDER BY experiment) AS experiment,
       list(DISTINCT scale ORDER BY scale) AS scale, list(DISTINCT data ORDER BY data) AS data
FROM runs"""

Over = Literal["step", "seconds"]


@dataclass(frozen=True)
class Measure:
    """What a curve shows.

    Attributes:
        title: For people.
        column: Of `CURVES_SQL`.
        split: train or validation.
        unit: Of the axis.
        times: What the column is multiplied with.
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


@dataclass(frozen=True)
class Filter:
    """Which runs are shown; an empty part lets all through.

    Attributes:
        names: Beginnings or globs of names of runs or experiments, with spaces or commas between them.
        experiments: Of the runs.
        scales: Of the runs.
        data: Of the runs.
        states: Of `STATES`.
    """

    names: str = ""
    experiments: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    states: tuple[str, ...] = ()

    def condition(self) -> tuple[str, list[object]]:
        """As SQL over `shown`, and its values."""
        conditions: list[str] = []
        values: list[object] = []
        if patterns := [_glob(word) for word in re.split(r"[\s,]+", self.names) if word]:
            either = " OR ".join(["run GLOB ? OR experiment GLOB ?"] * len(patterns))
            conditions.append(f"({either})")
            values += [pattern for pattern in patterns for _ in range(2)]
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
    """A row for each run that is wanted, those that run first."""
    condition, values = wanted.condition()
    return ask(layout, "runs as they are now", RUNS_SQL.format(condition=condition), values, problems)


def names_of_runs(layout: Layout, problems: list[str]) -> list[str]:
    """The names of all runs, tested runs first, then those that run, then the newest."""
    return [row["run"] for row in ask(layout, "names of the runs", NAMES_SQL, [], problems).rows]


def choices(layout: Layout, problems: list[str]) -> dict[str, list[str]]:
    """Names of the runs, experiments, scales and data that there are."""
    (row,) = ask(layout, "what to choose from", CHOICES_SQL, [], problems).rows
    return {column: [name for name in names or [] if name] for column, names in row.items()}


def curves_of(layout: Layout, runs: Sequence[str], problems: list[str]) -> Asked:
    """How runs learn: a row for each window of training steps and each validation."""
    says = "training in windows of steps, and every validation"
    return ask(layout, says, CURVES_SQL, [list(runs)], problems, runs=runs)


def draw_curves(
    runs: Sequence[str], rows: Sequence[dict[str, Any]], measure: Measure, over: Over
) -> bytes | None:
    """The curves of runs as SVG, each with the look of its place among them; None where none has a point.

    Args:
        runs: In the order of their colours.
        rows: Of `curves_of`.
        measure: What is shown.
        over: Training step, or training time.
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

    return draw_svg(paint)
