"""Accuracy by the number of sampled answers: what is chosen among them, and what an oracle would choose."""

from __future__ import annotations

from typing import Any

from trm_data.storage.root import Layout
from trm_eval.report.ask import ask
from trm_eval.report.blocks import Picture
from trm_eval.report.canvas import draw, look, short
from trm_eval.report.group import Group

SQL = """\
SELECT evaluation, run, step, weights, noise, selection, sample_seed, row_limit, count, samples, exact_count,
       oracle_exact_count, exact_accuracy, oracle_exact_accuracy, exact_low, exact_high
FROM samples
WHERE list_contains(?, run || ' ' || step) AND split = 'test' AND weights = 'ema' AND row_limit = 0 AND count > 0
ORDER BY run, noise, selection, evaluation, samples"""


TOLD_APART = ("sample_seed",)
"""Columns that tell evaluations of one run apart, beside noise and selection."""


def sample_pictures(layout: Layout, group: Group, problems: list[str]) -> list[Picture]:
    """The figure of a group, where runs of it were evaluated with more than one sample."""
    tests = list(dict.fromkeys(f"{member.run} {member.total_steps}" for member in group.members))
    asked = ask(layout, "accuracy by samples", SQL, [tests], problems)
    if max((row["samples"] for row in asked.rows), default=0) < 2:
        return []
    return [
        Picture(
            f"{group.name}-samples",
            draw(lambda axis: _paint(axis, group, asked.rows)),
            "Accuracy by samples (dotted: any of them is right)",
            f"{group.name}: exact accuracy over the number of samples, as chosen and by an oracle",
            asked.rows,
            (asked.query,),
        )
    ]


def _paint(axis: Any, group: Group, rows: list[dict[str, Any]]) -> None:
    names = group.names()
    tests: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        tests.setdefault(row["evaluation"], []).append(row)
    differ = [column for column in TOLD_APART if len({row[column] for row in rows}) > 1]
    for number, own in enumerate(tests.values()):
        first, style = own[0], look(number)
        samples = [row["samples"] for row in own]
        apart = [f"{column.replace('_', ' ')} {first[column]}" for column in differ]
        how = ", ".join([f"noise {first['noise']:g}, {first['selection']}", *apart])
        name = how if len(names) == 1 else f"{names[first['run']]}, {how}"
        axis.plot(samples, [100 * row["exact_accuracy"] for row in own], label=short(name, 60), **style)
        low, high = ([100 * row[end] for row in own] for end in ("exact_low", "exact_high"))
        axis.fill_between(samples, low, high, color=style["color"], alpha=0.12, linewidth=0)
        oracle = [100 * row["oracle_exact_accuracy"] for row in own]
        axis.plot(samples, oracle, **(style | {"linestyle": ":", "markerfacecolor": "none"}))
    plain = {**look(0), "color": "#6b7280", "linestyle": ":", "markerfacecolor": "none"}
    axis.plot([], [], label="any of them is right", **plain)
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlabel("samples")
    axis.set_ylabel("exact accuracy, test (%)")
    axis.grid()
