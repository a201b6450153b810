"""A report as blocks, which `markdown` and `html` write: what was asked, what came out, and the SQL that says so."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from trm_eval.report.figures import depth_figure, group_figure
from trm_eval.report.study import CURVES_SQL, DEPTH_SQL, FLIPS_SQL, MEMBERS_SQL, Comparison, Group, Member
from trm_train.experiments.setting import Setting

SURE = 0.05
"""Differences with a smaller p-value are called differences."""


@dataclass(frozen=True)
class Heading:
    """A heading of the second or a lower level."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph of plain words."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of plain sentences."""

    lines: list[str]


@dataclass(frozen=True)
class Table:
    """A table, which is a file of its own too.

    Attributes:
        file: Name of its CSV file.
        columns: Names.
        rows: A word for each column.
        data: The same unrounded, by name; that is what the file has.
    """

    file: str
    columns: list[str]
    rows: list[list[str]]
    data: list[dict[str, Any]]

    def csv(self) -> bytes:
        """The data as CSV."""
        return _csv(self.data, self.columns)


def _csv(rows: list[dict[str, Any]], columns: list[str]) -> bytes:
    """Rows by name as CSV; the columns are for those that there are none of."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


@dataclass(frozen=True)
class Picture:
    """A figure.

    Attributes:
        file: Name of its SVG file.
        svg: Its content.
        says: What it shows, for those who do not see it.
        data_file: Name of a CSV file with its numbers; empty where a table has them.
        data: Those numbers, a row each.
    """

    file: str
    svg: bytes
    says: str
    data_file: str = ""
    data: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def csv(self) -> bytes:
        """The numbers as CSV."""
        return _csv(self.data, [])


@dataclass(frozen=True)
class Query:
    """SQL that figures come from.

    Attributes:
        says: What it gives.
        sql: The query; parameters are `?`.
    """

    says: str
    sql: str


Block = Heading | Text | Bullets | Table | Picture | Query


@dataclass(frozen=True)
class Page:
    """A report.

    Attributes:
        title: Of the whole.
        blocks: What it consists of, in order.
    """

    title: str
    blocks: list[Block]


def study_page(
    groups: Sequence[Group], setting: Setting, command: str, versions: str, problems: Sequence[str] = ()
) -> Page:
    """The report of groups of experiments.

    Args:
        groups: From `gather`.
        setting: Scale and data.
        command: What writes this report.
        versions: Of what trained the runs.
        problems: What the report is without, a line each.
    """
    runs = {member.run: member for group in groups for member in group.members}
    tested = sorted({member.count for member in runs.values()})
    missing = [name for group in groups for name in group.missing]
    blocks: list[Block] = [
        Text(
            f"{len(runs)} runs, each tested with its averaged weights at its last step on "
            f"{' or '.join(f'{count:,}' for count in tested)} held-out puzzles. Intervals are 95% (Wilson); "
            "differences are between the same puzzles, with p-values of McNemar's exact test, corrected within a group "
            "(Holm); their intervals (Clopper and Pearson) are not corrected. "
            "Curves are log-linear or a power law with a ceiling, chosen by AICc; their 95% bands are of curves that "
            "are fitted to drawn runs. "
            f"Training took {sum(member.train_seconds or 0.0 for member in runs.values()) / 3600:.1f} h in all."
        ),
        Text(f"Written by `{command}` from the result tables of runs with {versions}."),
    ]
    if missing:
        blocks.append(Text(f"Not tested yet: {', '.join(missing)}."))
    if problems:
        blocks.append(Bullets([f"Left out: {problem}" for problem in problems]))
    blocks += [Heading("At a glance"), _overview(groups)]
    for group in groups:
        blocks += _group_blocks(group)
    blocks += [
        Heading("The SQL behind it"),
        Query("tests with their intervals, for a scale, data and a list of experiments", MEMBERS_SQL),
        Query("validations of a list of runs", CURVES_SQL),
        Query("accuracy after every supervision step of a list of evaluations", DEPTH_SQL),
        Query("puzzles that only one of two evaluations solves", FLIPS_SQL),
    ]
    return Page(f"The study at {setting}", blocks)


def _overview(groups: Sequence[Group]) -> Table:
    rows: list[list[str]] = []
    data: list[dict[str, Any]] = []
    for group in groups:
        best = max(group.members, key=lambda member: member.exact_accuracy)
        ends = "" if group.ends is None else f"{_points(group.ends)}, {_apart(group.ends)}"
        rows.append([group.name, group.guide.question, f"{_name(best)}: {_percent(best)}", ends])
        facts = {"group": group.name, "question": group.guide.question, "best": best.experiment}
        data.append({**facts, "exact_accuracy": best.exact_accuracy, "ends": ends})
    return Table("overview.csv", ["group", "question", "best", "largest against smallest"], rows, data)


def _group_blocks(group: Group) -> list[Block]:
    rows = [
        [
            member.experiment,
            member.varies,
            str(member.seed),
            f"{100 * member.exact_accuracy:.1f}",
            f"{100 * member.exact_low:.1f} to {100 * member.exact_high:.1f}",
            f"{100 * member.cell_accuracy:.2f}",
            f"{100 * member.q_halt_accuracy:.1f}",
            f"{member.total_steps:,}",
            "-" if member.train_seconds is None else f"{member.train_seconds:,.0f}",
            member.run,
        ]
        for member in group.members
    ]
    columns = [
        "experiment",
        "varies",
        "exact %",
        "95%",
        "cells %",
        "halting right %",
        "steps",
        "train s",
        "run",
    ]
    curves = [
        {"run": run, "step": step, "exact_accuracy": share}
        for run, (steps, shares) in group.curves.items()
        for step, share in zip(steps, shares, strict=True)
    ]
    blocks: list[Block] = [
        Heading(f"{group.name}: {group.guide.question}"),
        Bullets(
            [
                f"Varies: {group.guide.varies}.",
                f"Expected: {group.guide.expected}.",
                *(f"Found: {line}" for line in findings(group)),
            ]
        ),
        Table(f"{group.name}.csv", columns, rows, [asdict(member) for member in group.members]),
        Picture(
            f"{group.name}.svg",
            group_figure(group),
            f"{group.name}: exact accuracy on the test split with 95% intervals, and curves of the validations",
            f"{group.name}-curves.csv" if curves else "",
            curves,
        ),
    ]
    if any(len(rows) > 1 for rows in group.depths.values()):
        blocks.append(
            Picture(
                f"{group.name}-depth.svg",
                depth_figure(group),
                f"{group.name}: exact accuracy after every supervision step of the test, with 95% intervals",
                f"{group.name}-depth.csv",
                [row for rows in group.depths.values() for row in rows],
            )
        )
    return blocks


def findings(group: Group) -> list[str]:
    """What the numbers of a group say, a sentence each."""
    best = max(group.members, key=lambda member: member.exact_accuracy)
    lines = [f"best is {_name(best)} with {_percent(best)}."]
    if group.ends is not None:
        a, b = group.ends.a, group.ends.b
        lines.append(
            f"{_name(a)} reaches {_percent(a)}, {_name(b)} {_percent(b)}: {_points(group.ends)}; the ends are "
            f"{_apart(group.ends)}."
        )
    if group.trend is not None:
        lines.append(group.trend.says(group.quantity))
    sure = [each for each in group.against_baseline if each.p_value < SURE]
    unsure = len(group.against_baseline) - len(sure)
    lines += [f"{_name(each.b)} differs from the baseline: {_points(each)}." for each in sure]
    if unsure:
        same = "no difference from the baseline can be told for" if not sure else "none can be told for"
        rest = [_name(each.b) for each in group.against_baseline if each.p_value >= SURE]
        lines.append(f"{same} {', '.join(rest)}.")
    return lines


def _name(member: Member) -> str:
    seed = f" (seed {member.seed})" if member.seed else ""
    return f"{member.varies or member.experiment}{seed}"


def _percent(member: Member) -> str:
    low, high = 100 * member.exact_low, 100 * member.exact_high
    return f"{100 * member.exact_accuracy:.1f}% ({low:.1f} to {high:.1f})"


def _points(compared: Comparison) -> str:
    low, high = compared.paired.interval
    said = f"p {compared.p_value:.2g}" if compared.p_value >= 1e-4 else "p < 0.0001"
    return f"{100 * compared.paired.difference:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f}, {said})"


def _apart(compared: Comparison) -> str:
    a, b = compared.a, compared.b
    apart = a.exact_high < b.exact_low or b.exact_high < a.exact_low
    return "further apart than their 95% intervals" if apart else "not further apart than their 95% intervals"
