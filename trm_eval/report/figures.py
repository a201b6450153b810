"""Figures of a report, as SVG: accuracy against what varies, and learning curves. Colours are told apart by anyone."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from trm_eval.report.study import Group, Member

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#6b7280")
"""Source: Okabe and Ito, Color Universal Design (2008); a grey beside them."""
MARKERS = "osD^vPXh"
"""One more than colours, so that both repeat together only after 56 curves."""
INK, GRID = "#1f2937", "#d1d5db"
SIZE = (9.0, 3.4)
"""Inches."""
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "trm",
    "font.size": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def group_figure(group: Group) -> bytes:
    """Accuracies with their intervals beside the curves of the validations, as SVG."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(SETTINGS):
        high = SIZE[1] if group.quantity else max(SIZE[1], 0.45 * len(group.members) + 1.2)
        figure = Figure(figsize=(SIZE[0], high), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[1.1, 1])
        if group.quantity:
            _against_quantity(left, group)
        else:
            _by_name(left, group.members)
        _curves(right, group)
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None}, facecolor="white")
    return out.getvalue()


def depth_figure(group: Group) -> bytes:
    """Accuracies after every supervision step of the tests, with their intervals, as SVG."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    with rc_context(SETTINGS):
        figure = Figure(figsize=(SIZE[0] * 0.62, SIZE[1]), layout="constrained")
        axis = figure.subplots()
        names = _names(group)
        for number, (run, rows) in enumerate(group.depths.items()):
            steps = [row["depth"] for row in rows]
            colour = COLOURS[number % len(COLOURS)]
            axis.plot(
                steps,
                [100 * row["exact_accuracy"] for row in rows],
                color=colour,
                marker=MARKERS[number % len(MARKERS)],
                markersize=3.5,
                linewidth=1.2,
                label=_short(names[run]),
            )
            low, high = ([100 * row[end] for row in rows] for end in ("exact_low", "exact_high"))
            axis.fill_between(steps, low, high, color=colour, alpha=0.12, linewidth=0)
        axis.set_xlabel("supervision step of the test")
        axis.set_ylabel("exact accuracy (%)")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(color=GRID, linewidth=0.6)
        axis.legend(fontsize=7, frameon=False)
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None}, facecolor="white")
    return out.getvalue()


def _names(group: Group) -> dict[str, str]:
    """What each run is called in a legend."""
    seeds = len({member.seed for member in group.members}) > 1
    return {
        member.run: (member.varies or member.experiment) + (f", seed {member.seed}" if seeds else "")
        for member in group.members[::-1]
    }


def _bars(members: Sequence[Member]) -> list[list[float]]:
    """How far the intervals reach below and above (%)."""
    below = [100 * max(member.exact_accuracy - member.exact_low, 0.0) for member in members]
    above = [100 * max(member.exact_high - member.exact_accuracy, 0.0) for member in members]
    return [below, above]


def _against_quantity(axis: Any, group: Group) -> None:
    members = [member for member in group.members if member.value is not None]
    values = [member.value for member in members]
    exact = [100 * member.exact_accuracy for member in members]
    axis.errorbar(values, exact, yerr=_bars(members), fmt="o", color=COLOURS[0], capsize=3, zorder=3)
    trend = group.trend
    if trend is not None and trend.fit is not None and trend.band is not None:
        axis.plot(trend.band.x, trend.fit.at(trend.band.x), color=COLOURS[0], linewidth=1.2)
        axis.fill_between(
            trend.band.x, trend.band.low, trend.band.high, color=COLOURS[0], alpha=0.15, linewidth=0
        )
        low, high = axis.get_ylim()
        axis.set_ylim(max(low, -5.0), min(high, 105.0))
    means = {value: [e for v, e in zip(values, exact, strict=True) if v == value] for value in values}
    if trend is None or trend.fit is None:
        axis.plot(list(means), [sum(of) / len(of) for of in means.values()], color=COLOURS[0], alpha=0.5)
    if group.log:
        axis.set_xscale("log", base=2)
    ticks = list(means)
    axis.set_xticks(ticks, [f"{tick:,.4g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel(group.quantity)
    axis.set_ylabel("exact accuracy on the test split (%)")
    axis.grid(color=GRID, linewidth=0.6)


def _by_name(axis: Any, members: Sequence[Member]) -> None:
    places = list(range(len(members)))[::-1]
    exact = [100 * member.exact_accuracy for member in members]
    axis.errorbar(exact, places, xerr=_bars(members), fmt="o", color=COLOURS[0], capsize=3, zorder=3)
    axis.set_yticks(places, [_short(member.varies or member.experiment) for member in members])
    axis.set_ylim(-0.7, len(members) - 0.3)
    axis.set_xlabel("exact accuracy on the test split (%)")
    axis.grid(color=GRID, linewidth=0.6, axis="x")


def _curves(axis: Any, group: Group) -> None:
    runs = list(dict.fromkeys(member.run for member in group.members if member.run in group.curves))
    names = _names(group)
    for number, run in enumerate(runs):
        steps, shares = group.curves[run]
        axis.plot(
            steps,
            [100 * share for share in shares],
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=3.5,
            linewidth=1.2,
            label=_short(names[run]),
        )
    axis.set_xlabel("training step")
    axis.set_ylabel("exact accuracy on the validation split (%)")
    axis.grid(color=GRID, linewidth=0.6)
    if runs:
        axis.legend(fontsize=7, frameon=False)


def _short(text: str, most: int = 30) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
