"""Accuracy against cost (parameters, operations, training time), and the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from trm_data.storage.root import Layout
from trm_eval.report.ask import ask
from trm_eval.report.blocks import Block, Heading, Picture, Text
from trm_eval.report.canvas import COLOURS, INK, draw, short
from trm_eval.report.group import Group
from trm_train.experiments.setting import Setting

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
"""Of the width of a panel: names of the front that are closer than that would overlap, and the second is left out."""


def pareto_blocks(
    layout: Layout, groups: Sequence[Group], setting: Setting, problems: list[str]
) -> list[Block]:
    """A figure for each measure of cost and each set of test puzzles of which two runs or more are known."""
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
        shares = [[100 * row[end] for row in some] for end in ("exact_low", "exact_accuracy", "exact_high")]
        below, above = (
            [max(abs(a - b), 0.0) for a, b in zip(shares[1], other, strict=True)]
            for other in (shares[0], shares[2])
        )
        axis.errorbar(
            [row["cost"] for row in some], shares[1], yerr=[below, above], fmt="o", markersize=5, elinewidth=0.8,
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
    """Names above the points of the front, the best first: nothing else lies there."""
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
