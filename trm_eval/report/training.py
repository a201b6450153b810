"""Curves of training: the loss, and the cell accuracy of the validations."""

from __future__ import annotations

from typing import Any

from trm_data.storage.root import Layout
from trm_eval.report.ask import ask
from trm_eval.report.blocks import Picture
from trm_eval.report.canvas import draw
from trm_eval.report.figures import paint_curves
from trm_eval.report.group import Group

POINTS = 240
"""Windows of a curve at most; a figure shows no more."""

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

CURVES = (
    ("loss", "train", "lm_loss", 1, "Training loss", "cross-entropy (nats a cell)"),
    (
        "cells",
        "validation",
        "cell_accuracy",
        100,
        "Cell accuracy over training",
        "cell accuracy, validation (%)",
    ),
)
"""Ending of the files, split, column of `CURVES_SQL`, factor, title and unit of each figure."""


def training_pictures(layout: Layout, group: Group, problems: list[str]) -> list[Picture]:
    """The figures of a group whose runs have metrics."""
    runs = list(dict.fromkeys(member.run for member in group.members))
    asked = ask(layout, "training in windows of steps, and every validation", CURVES_SQL, [runs], problems)
    names = group.names()
    pictures: list[Picture] = []
    for ending, split, column, factor, title, unit in CURVES:
        rows = [row for row in asked.rows if row["split"] == split and row[column] is not None]
        of_runs = [(run, [row for row in rows if row["run"] == run]) for run in runs]
        curves = [
            (names[run], [row["step"] for row in own], [factor * row[column] for row in own])
            for run, own in of_runs
            if own
        ]
        if not curves:
            continue

        def paint(axis: Any, curves: Any = curves, unit: str = unit) -> None:
            paint_curves(axis, curves)
            axis.set_xlabel("training step")
            axis.set_ylabel(unit)

        data = [{name: row[name] for name in ("run", "step", column)} for row in rows]
        said = f"{group.name}: {title.lower()}, in {unit}"
        pictures.append(Picture(f"{group.name}-{ending}", draw(paint), title, said, data, (asked.query,)))
    return pictures
