"""Figures of a group's tests and training: accuracy against what varies, curves of training, accuracy by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trm_data.storage.root import Layout
from trm_eval.report.ask import ask
from trm_eval.report.blocks import Picture
from trm_eval.report.canvas import COLOURS, Drawn, draw, look, short
from trm_eval.report.group import Group, Member

TICKS = 7
"""Values of a quantity that have room on its axis."""
MARKED = 64
"""Points of a curve beyond which markers would hide it."""

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

TRAINING = (
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


def accuracy_figure(group: Group) -> Drawn:
    """Accuracies on the test split with their intervals, over what varies or by name."""
    if group.quantity:
        return draw(lambda axis: _against_quantity(axis, group))
    return draw(lambda axis: _by_name(axis, group), height=max(1.4, 0.32 * len(group.members) + 0.8))


def curves_figure(group: Group) -> Drawn:
    """Exact accuracies of the validations over training."""
    return draw(lambda axis: _curves(axis, group))


def depth_figure(group: Group) -> Drawn:
    """Accuracies after every supervision step of the tests, with their intervals."""
    return draw(lambda axis: _depths(axis, group))


def spread(members: Sequence[Member]) -> list[list[float]]:
    """How far the intervals of the accuracies reach below and above (points)."""
    below = [100 * max(member.exact_accuracy - member.exact_low, 0.0) for member in members]
    above = [100 * max(member.exact_high - member.exact_accuracy, 0.0) for member in members]
    return [below, above]


def _against_quantity(axis: Any, group: Group) -> None:
    members = [member for member in group.members if member.value is not None]
    values = [member.value for member in members]
    exact = [100 * member.exact_accuracy for member in members]
    axis.errorbar(values, exact, yerr=spread(members), fmt="o", color=COLOURS[0], capsize=3, zorder=3)
    trend = group.trend
    if trend is not None and trend.fit is not None and trend.band is not None:
        axis.plot(trend.band.x, trend.fit.at(trend.band.x), color=COLOURS[0], linewidth=1.2)
        axis.fill_between(
            trend.band.x, trend.band.low, trend.band.high, color=COLOURS[0], alpha=0.15, linewidth=0
        )
        low, high = axis.get_ylim()
        axis.set_ylim(max(low, -5.0), min(high, 101.0))
    means = {value: [e for v, e in zip(values, exact, strict=True) if v == value] for value in values}
    if trend is None or trend.fit is None:
        axis.plot(list(means), [sum(of) / len(of) for of in means.values()], color=COLOURS[0], alpha=0.5)
    if group.log:
        axis.set_xscale("log", base=2)
    ticks = list(means)
    every = -(-len(ticks) // TICKS)
    axis.set_xticks(ticks, [f"{tick:,.4g}" if i % every == 0 else "" for i, tick in enumerate(ticks)])
    axis.minorticks_off()
    axis.set_xlabel(group.quantity)
    axis.set_ylabel("exact accuracy, test (%)")
    axis.grid()


def _by_name(axis: Any, group: Group) -> None:
    labels = group.labels()
    paint_shares(
        axis,
        [
            (labels[each.experiment], each.exact_accuracy, each.exact_low, each.exact_high)
            for each in group.members
        ],
    )


def paint_shares(axis: Any, named: Sequence[tuple[str, float, float, float]]) -> None:
    """Draw accuracies (0 to 1) with the ends of their intervals, a line a name."""
    places = list(range(len(named)))[::-1]
    exact = [100 * share for _, share, _, _ in named]
    below = [100 * max(share - low, 0.0) for _, share, low, _ in named]
    above = [100 * max(high - share, 0.0) for _, share, _, high in named]
    axis.errorbar(exact, places, xerr=[below, above], fmt="o", color=COLOURS[0], capsize=3, zorder=3)
    axis.set_yticks(places, [short(name) for name, *_ in named])
    axis.set_ylim(-0.7, len(named) - 0.3)
    axis.set_xlabel("exact accuracy, test (%)")
    axis.grid(axis="x")


def _curves(axis: Any, group: Group) -> None:
    names = group.names()
    runs = list(dict.fromkeys(member.run for member in group.members if member.run in group.curves))
    curves = [(names[run], *group.curves[run]) for run in runs]
    paint_curves(axis, [(name, steps, [100 * share for share in shares]) for name, steps, shares in curves])
    axis.set_xlabel("training step")
    axis.set_ylabel("exact accuracy, validation (%)")


def paint_curves(axis: Any, curves: Sequence[tuple[str, Sequence[float], Sequence[float]]]) -> None:
    """Draw named curves; where one has many points, their markers are left out."""
    for number, (name, x, y) in enumerate(curves):
        style = look(number) | ({"marker": ""} if len(x) > MARKED else {})
        axis.plot(x, y, label=short(name), **style)
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.grid()


def _depths(axis: Any, group: Group) -> None:
    names = group.names()
    paint_depths(axis, [(names[run], rows) for run, rows in group.depths.items()])


def paint_depths(axis: Any, tests: Sequence[tuple[str, Sequence[dict[str, Any]]]]) -> None:
    """Draw the accuracies of named tests after every supervision step, from rows of `study.DEPTH_SQL`."""
    from matplotlib.ticker import MaxNLocator

    for number, (name, rows) in enumerate(tests):
        steps = [row["depth"] for row in rows]
        low, exact, high = (
            [100 * row[end] for row in rows] for end in ("exact_low", "exact_accuracy", "exact_high")
        )
        style = look(number) | ({"marker": ""} if len(steps) > MARKED else {})
        axis.plot(steps, exact, label=short(name), **style)
        axis.fill_between(steps, low, high, color=COLOURS[number % len(COLOURS)], alpha=0.12, linewidth=0)
    axis.set_xlabel("supervision step of the test")
    axis.set_ylabel("exact accuracy, test (%)")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid()


def training_pictures(layout: Layout, group: Group, problems: list[str]) -> list[Picture]:
    """The figures of a group whose runs have metrics."""
    runs = list(dict.fromkeys(member.run for member in group.members))
    asked = ask(layout, "training in windows of steps, and every validation", CURVES_SQL, [runs], problems)
    names = group.names()
    pictures: list[Picture] = []
    for ending, split, column, factor, title, unit in TRAINING:
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
