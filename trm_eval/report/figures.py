"""Figures of a group's tests and training: accuracy against what varies or costs, curves, accuracy by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from trm_data.storage.root import Layout
from trm_eval.report.ask import ask
from trm_eval.report.blocks import Block, Heading, Picture, Text
from trm_eval.report.canvas import COLOURS, INK, draw, looks, plot_shares, reach, short
from trm_eval.report.group import Group
from trm_eval.report.verdict import accuracy_of_all
from trm_train.experiments.setting import Setting

TICKS = 7
"""Maximum number of labelled values on an axis."""
ASIDE = 1.03
"""Factor between the positions of curves' runs at one value, on a logarithmic axis."""
MARKED = 64
"""Maximum number of points with markers; more markers would hide the curve."""


def accuracy_figure(group: Group) -> bytes:
    """Draw test accuracies with intervals, over the varied quantity or by name."""
    if group.quantity:
        return draw(lambda axis: paint_against_quantity(axis, group))
    labels = group.labels()
    shares = [(labels[m.experiment], m.exact_accuracy, m.exact_low, m.exact_high) for m in group.members]
    return draw(lambda axis: paint_shares(axis, shares), height=max(1.4, 0.32 * len(labels) + 0.8))


def curves_figure(group: Group) -> bytes:
    """Draw validation accuracies over training."""
    names = group.names()
    runs = dict.fromkeys(member.run for member in group.members if member.run in group.curves)
    curves = [
        (names[run], [row["step"] for row in rows], [100 * row["exact_accuracy"] for row in rows])
        for run in runs
        for rows in [group.curves[run]]
    ]

    def paint(axis: Any) -> None:
        paint_curves(axis, curves)
        axis.set_xlabel("training step")
        axis.set_ylabel("exact accuracy, validation (%)")

    return draw(paint)


def depth_figure(group: Group) -> bytes:
    """Draw test accuracies after every supervision step, with intervals."""
    names = group.names()
    tests = [(names[run], rows) for run, rows in group.depths.items()]
    return draw(lambda axis: paint_depths(axis, tests))


def paint_against_quantity(axis: Any, group: Group) -> None:
    """Draw the tests of a group that varies a quantity, a curve for each of its series, with bands."""
    trend, several = group.trend, len(group.series) > 1
    bands: list[tuple[Any, ...]] = []
    for style, (number, of) in zip(looks(list(group.series)), enumerate(group.series.values()), strict=True):
        members, colour = [member for member in of if member.value is not None], style["color"]
        aside = ASIDE ** (number - (len(group.series) - 1) / 2) if group.log else 1.0
        exact = [100 * member.exact_accuracy for member in members]
        values = [member.value or 0.0 for member in members]
        axis.errorbar(
            [aside * value for value in values], exact, yerr=reach([vars(member) for member in members]),
            color=colour, zorder=3,
            **{"fmt": style["marker"], "markersize": 3, "alpha": 0.6} if several else {"fmt": "o", "capsize": 3},
        )  # fmt: skip
        if trend is not None and trend.fit is not None and trend.band is not None:
            axis.plot(trend.band.x, trend.fit.at(trend.band.x), color=colour, linewidth=1.2)
            bands.append((trend.band.x, trend.band.low, trend.band.high, colour))
            continue
        points = [(value, [m for m in members if m.value == value]) for value in dict.fromkeys(values)]
        x, mean, low, high = zip(
            *((value, *accuracy_of_all(each)[:3]) for value, each in points), strict=True
        )
        axis.plot(x, mean, **style)
        bands.append((x, low, high, colour))
    limits = axis.get_ylim()  # an interval over few seeds may fill the panel: bands do not widen it
    for x, low, high, colour in bands:
        axis.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    if trend is None or trend.fit is None:
        axis.set_ylim(limits)
    if group.log:
        axis.set_xscale("log", base=2)
    ticks = sorted({member.value for member in group.members if member.value is not None})
    every = -(-len(ticks) // TICKS)
    axis.set_xticks(ticks, [f"{tick:,g}" if i % every == 0 else "" for i, tick in enumerate(ticks)])
    axis.minorticks_off()
    axis.set_xlabel(group.quantity)
    axis.set_ylabel("exact accuracy, test (%)")
    axis.grid()


def paint_shares(axis: Any, named: Sequence[tuple[str, float, float, float]]) -> None:
    """Draw accuracies (0 to 1) with the ends of their intervals, a line for each name.

    Accuracies of one name, such as the seeds of an experiment, are drawn below each other in its line.
    """
    labels = [name for name, *_ in named]
    lines = list(dict.fromkeys(labels))
    places: list[float] = []
    for at, name in enumerate(labels):
        down = (1 + 2 * labels[:at].count(name)) / (2 * labels.count(name)) - 0.5
        places.append(len(lines) - 1 - lines.index(name) - 0.7 * down)
    exact = [100 * share for _, share, _, _ in named]
    rows = [{"exact_accuracy": share, "exact_low": low, "exact_high": high} for _, share, low, high in named]
    size = {"capsize": 3} if len(lines) == len(labels) else {"markersize": 2.5, "elinewidth": 0.7}
    axis.errorbar(exact, places, xerr=reach(rows), fmt="o", color=COLOURS[0], zorder=3, **size)
    axis.set_yticks(range(len(lines))[::-1], [short(name) for name in lines])
    axis.set_ylim(-0.7, len(lines) - 0.3)
    axis.set_xlabel("exact accuracy, test (%)")
    axis.grid(axis="x")


def paint_curves(axis: Any, curves: Sequence[tuple[str, Sequence[float], Sequence[float]]]) -> None:
    """Draw named curves, without markers if a curve has many points; ticks are at whole steps or seconds."""
    from matplotlib.ticker import MaxNLocator

    for style, (_, x, y) in zip(looks([name for name, *_ in curves]), curves, strict=True):
        axis.plot(x, y, **style | ({"marker": ""} if len(x) > MARKED else {}))
    axis.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.grid()


def paint_depths(axis: Any, tests: Sequence[tuple[str, Sequence[dict[str, Any]]]]) -> None:
    """Draw the accuracy of named tests after every supervision step, from rows of `study.DEPTH_SQL`."""
    from matplotlib.ticker import MaxNLocator

    names = [name for name, _ in tests]
    for style, (name, rows) in zip(looks(names), tests, strict=True):
        steps = [row["depth"] for row in rows]
        style |= {"marker": ""} if len(steps) > MARKED else {}
        plot_shares(axis, steps, rows, style, 0.12 / names.count(name))
    axis.set_xlabel("supervision step of the test")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid()


SQL = """\
SELECT measure, cost, exact_accuracy, exact_low, exact_high, on_front, experiments[1] AS experiment, run
FROM pareto
WHERE scale = ? AND data = ? AND split_digest = ? AND measure = ?
ORDER BY cost, exact_accuracy DESC, run"""

MEASURES = {
    "parameters": ("trained parameters", "parameters"),
    "training_flops": ("operations of training, counted from the shapes (FLOP)", "counted operations"),
    "train_seconds": ("time of training (s)", "time of training"),
}
APART = 0.22
"""Minimum distance of names on the front, as a share of the panel width; a closer name is left out."""


def pareto_blocks(
    layout: Layout, groups: Sequence[Group], setting: Setting, problems: list[str]
) -> list[Block]:
    """Return a figure for each cost measure and each set of test puzzles with at least two known runs."""
    members = [member for group in groups for member in group.members]
    reported = {member.run for member in members}
    digests = list(dict.fromkeys(member.split_digest for member in members))
    blocks: list[Block] = []
    for number, digest in enumerate(digests, start=1):
        which = f"-{number}" if len(digests) > 1 else ""
        for measure, (label, title) in MEASURES.items():
            values = [setting.scale, setting.data, digest, measure]
            asked = ask(layout, f"accuracy against {title}", SQL, values, problems)
            if len({row["cost"] for row in asked.rows}) < 2:
                continue
            drawn = draw(lambda axis, rows=asked.rows, label=label: _paint(axis, rows, reported, label))
            blocks.append(
                Picture(
                    f"pareto-{measure.replace('_', '-')}{which}",
                    drawn,
                    f"Accuracy against {title}",
                    f"exact accuracy of all tested runs against {title}, with the front of those that none beats",
                    asked.rows,
                    (asked.query,),
                )
            )
    if not blocks:
        return []
    said = Text(
        f"All tested runs at {setting}: filled, those of this report; hollow, the others; the line joins those that no "
        "run beats for as little. Time compares only runs of one machine."
    )
    return [Heading("Accuracy against cost"), said, *blocks]


def _paint(axis: Any, rows: list[dict[str, Any]], reported: set[str], label: str) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator

    front = [row for row in rows if row["on_front"]]
    costs, exact = ([row["cost"] for row in front], [100 * row["exact_accuracy"] for row in front])
    axis.step(costs, exact, where="post", color=COLOURS[5], linewidth=1.3, label="front", zorder=1)
    for ours, style in ((False, {"mfc": "none", "mec": COLOURS[6]}), (True, {"color": COLOURS[0]})):
        some = [row for row in rows if (row["run"] in reported) == ours]
        if not some:
            continue
        axis.errorbar(
            [row["cost"] for row in some], [100 * row["exact_accuracy"] for row in some], yerr=reach(some),
            fmt="o", markersize=5, elinewidth=0.8,
            ecolor=COLOURS[0] if ours else COLOURS[6], label="of this report" if ours else "others", **style,
        )  # fmt: skip
    axis.set_xscale("log")
    axis.margins(x=0.16, y=0.1)
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=9))
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.minorticks_off()
    _name_front(axis, front)
    axis.set_xlabel(label, fontsize=8)
    axis.set_ylabel("exact accuracy, test (%)")
    axis.grid(which="major")


def _name_front(axis: Any, front: list[dict[str, Any]]) -> None:
    """Write names above the points of the front, where there is nothing else, the best first."""
    low, high = (math.log(end) for end in axis.get_xlim())
    taken: list[float] = []
    for row in reversed(front):
        at = (math.log(row["cost"]) - low) / (high - low)
        if any(abs(at - other) < APART for other in taken):
            continue
        taken.append(at)
        place = (row["cost"], 100 * row["exact_high"])
        axis.annotate(
            short(row["experiment"], 18), place, (0, 2), textcoords="offset points", fontsize=7,
            ha="center", va="bottom", color=INK,
        )  # fmt: skip
