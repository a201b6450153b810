"""What a report says of experiments: their tests with intervals, curves, and which differ; every number by SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trm_data.storage.root import Layout
from trm_eval.errors import EvalError
from trm_eval.report.trend import Trend, trend_of
from trm_eval.statistics import Paired, holm
from trm_eval.tables.query import query_results
from trm_train.experiments.guide import Guide
from trm_train.experiments.registry import Experiment, groups_of
from trm_train.experiments.setting import Setting

BASELINE = "baseline"
"""The experiment that the others of a study are compared with."""

MEMBERS_SQL = """\
SELECT experiment, alias_of, varies, value, run, seed, evaluation, split_digest, count, exact_count, exact_accuracy,
       exact_low, exact_high, cell_accuracy, q_halt_accuracy, supervision_steps, total_steps, train_seconds
FROM study
WHERE scale = ? AND data = ? AND list_contains(?, experiment) AND evaluation IS NOT NULL
ORDER BY experiment, seed"""

CURVES_SQL = """\
SELECT run, step, exact_accuracy
FROM train_metrics
WHERE split = 'validation' AND count > 0 AND list_contains(?, run)
ORDER BY run, step"""

DEPTH_SQL = """\
SELECT evaluation, run, depth, exact_accuracy, wilson_low(exact_count, count) AS exact_low,
       wilson_high(exact_count, count) AS exact_high, halted_count
FROM depth
WHERE list_contains(?, evaluation)
ORDER BY evaluation, depth"""

FLIPS_SQL = """\
SELECT a.evaluation AS a, b.evaluation AS b, count(*) AS puzzles,
       count_if(a.exact AND NOT b.exact) AS only_a, count_if(b.exact AND NOT a.exact) AS only_b
FROM predictions AS a JOIN predictions AS b USING (row)
WHERE list_contains(?, a.evaluation || ' ' || b.evaluation)
GROUP BY a.evaluation, b.evaluation"""


@dataclass(frozen=True)
class Member:
    """An experiment's run of one seed, and its test; the fields are columns of the view `study`."""

    experiment: str
    alias_of: str | None
    varies: str
    value: float | None
    run: str
    seed: int
    evaluation: str
    split_digest: str
    count: int
    exact_count: int
    exact_accuracy: float
    exact_low: float
    exact_high: float
    cell_accuracy: float
    q_halt_accuracy: float
    supervision_steps: int
    total_steps: int
    train_seconds: float | None


@dataclass(frozen=True)
class Comparison:
    """Two runs of one group on the same puzzles.

    Attributes:
        a: The first.
        b: The second, whose advantage is counted.
        paired: How many puzzles they solve.
        p_value: Of no difference, corrected for the comparisons of the group.
    """

    a: Member
    b: Member
    paired: Paired
    p_value: float


@dataclass(frozen=True)
class Group:
    """A group of experiments, and what came of it.

    Attributes:
        name: Of the group.
        guide: What it asks and expects.
        quantity: What it varies with its unit, where that is a number; else empty.
        log: Whether that is spread over orders of magnitude.
        members: Those that were tested, by what varies.
        missing: Names of those that were not.
        curves: Validations of each run: steps and exact accuracies.
        against_baseline: Every other run against the baseline's of the same seed.
        ends: The smallest against the largest of one seed, where a number varies; None where they cannot be compared.
        trend: The curve over what varies; None where that is no number.
        depths: What each test gives after 1, 2, ... supervision steps, by run: rows of `DEPTH_SQL`.
    """

    name: str
    guide: Guide
    quantity: str
    log: bool
    members: list[Member]
    missing: list[str]
    curves: dict[str, tuple[list[int], list[float]]]
    against_baseline: list[Comparison]
    ends: Comparison | None
    trend: Trend | None = None
    depths: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])


def gather(layout: Layout, items: Sequence[Experiment], setting: Setting) -> tuple[list[Group], list[str]]:
    """What came of experiments at one scale and data, by group; groups without any result are left out.

    Returns:
        The groups, and a line for each thing that could not be read and that they are without.

    Args:
        layout: The root.
        items: Experiments.
        setting: Scale and data.

    Raises:
        EvalError: None of them was tested.
    """
    problems: list[str] = []
    members = _members(layout, [item.name for item in items], setting, problems)
    if not members:
        raise EvalError(
            "; ".join(
                [
                    f"none of {len(items)} experiments has been tested at {setting}: trm-train batch trains and tests "
                    "them",
                    *problems,
                ]
            )
        )
    runs = sorted({member.run for found in members.values() for member in found})
    curves = _curves(layout, runs, problems)
    tests = sorted({member.evaluation for found in members.values() for member in found})
    depths = _depths(layout, tests, problems)
    groups = [
        made
        for name, of_group in groups_of(items).items()
        if (made := _group(layout, name, of_group, members, curves, depths, problems)) is not None
    ]
    return groups, problems


def _group(
    layout: Layout,
    name: str,
    items: Sequence[Experiment],
    members: dict[str, list[Member]],
    curves: dict[str, tuple[list[int], list[float]]],
    depths: dict[str, list[dict[str, Any]]],
    problems: list[str],
) -> Group | None:
    found = [member for item in items for member in members.get(item.name, [])]
    guide = items[0].guide
    if not found or guide is None:
        return None
    quantity = items[0].quantity
    found.sort(
        key=lambda member: (0.0 if member.value is None else member.value, member.experiment, member.seed)
    )
    baselines = {member.seed: member for member in found if BASELINE in (member.alias_of, member.experiment)}
    own = {member.run for member in baselines.values()}
    against = [
        (baselines[member.seed], member)
        for member in found
        if member.run not in own and member.seed in baselines
    ]
    ends = None if quantity is None else _ends(found)
    compared = _compare(layout, against + ([ends] if ends else []), problems)
    return Group(
        name=name,
        guide=guide,
        quantity="" if quantity is None else f"{quantity.name} ({quantity.unit})",
        log=quantity is not None and quantity.log,
        members=found,
        missing=[item.name for item in items if item.name not in members],
        curves={member.run: curves[member.run] for member in found if member.run in curves},
        against_baseline=[compared[key] for key in map(_key, against) if key in compared],
        ends=None if ends is None else compared.get(_key(ends)),
        trend=None if quantity is None else _trend(found),
        depths={member.run: depths[member.run] for member in found if member.run in depths},
    )


def _trend(members: Sequence[Member]) -> Trend:
    """The curve over the values of the members, each run once."""
    runs = {member.run: member for member in members if member.value is not None}
    return trend_of([m.value or 0.0 for m in runs.values()], [m.exact_accuracy for m in runs.values()])


def _ends(members: Sequence[Member]) -> tuple[Member, Member] | None:
    """The runs of the smallest and of the largest value, of the first seed that both have."""
    values = [member.value for member in members if member.value is not None]
    if not values or min(values) == max(values):
        return None
    first = {member.seed: member for member in members if member.value == min(values)}
    last = {member.seed: member for member in members if member.value == max(values)}
    seed = min(set(first) & set(last), default=None)
    return None if seed is None else (first[seed], last[seed])


def _key(pair: tuple[Member, Member]) -> tuple[str, str]:
    return pair[0].run, pair[1].run


def _members(
    layout: Layout, names: Sequence[str], setting: Setting, problems: list[str]
) -> dict[str, list[Member]]:
    found: dict[str, list[Member]] = {}
    for row in _rows(layout, MEMBERS_SQL, [setting.scale, setting.data, list(names)], problems):
        member = Member(*row)
        found.setdefault(member.experiment, []).append(member)
    return found


def _curves(layout: Layout, runs: list[str], problems: list[str]) -> dict[str, tuple[list[int], list[float]]]:
    found: dict[str, tuple[list[int], list[float]]] = {}
    for run, step, exact in _rows(layout, CURVES_SQL, [runs], problems):
        steps, shares = found.setdefault(run, ([], []))
        steps.append(step)
        shares.append(exact)
    return found


def _depths(layout: Layout, evaluations: list[str], problems: list[str]) -> dict[str, list[dict[str, Any]]]:
    names = ("evaluation", "run", "depth", "exact_accuracy", "exact_low", "exact_high", "halted_count")
    found: dict[str, list[dict[str, Any]]] = {}
    for row in _rows(layout, DEPTH_SQL, [evaluations], problems):
        found.setdefault(row[1], []).append(dict(zip(names, row, strict=True)))
    return found


def _compare(
    layout: Layout, pairs: Sequence[tuple[Member, Member]], problems: list[str]
) -> dict[tuple[str, str], Comparison]:
    """Compare runs on the same puzzles, each pair once; pairs on other puzzles, or with rows missing, are left out."""
    wanted: dict[frozenset[str], tuple[Member, Member]] = {}
    for pair in pairs:
        if pair[0].split_digest == pair[1].split_digest and pair[0].run != pair[1].run:
            wanted.setdefault(frozenset(_key(pair)), pair)
    keys = {f"{a.evaluation} {b.evaluation}": (a, b) for a, b in wanted.values()}
    rows = _rows(layout, FLIPS_SQL, [list(keys)], problems) if keys else []
    flips = {f"{a} {b}": Paired(*counts) for a, b, *counts in rows}
    whole = {key: flips[key] for key, (a, b) in keys.items() if _is_whole(flips.get(key), a, b)}
    found: dict[tuple[str, str], Comparison] = {}
    for (key, paired), p_value in zip(
        whole.items(), holm([paired.p_value for paired in whole.values()]), strict=True
    ):
        a, b = keys[key]
        found[a.run, b.run] = Comparison(a, b, paired, p_value)
        found[b.run, a.run] = Comparison(b, a, paired.turned(), p_value)
    return found


def _is_whole(paired: Paired | None, a: Member, b: Member) -> bool:
    return paired is not None and paired.count == a.count == b.count


def _rows(
    layout: Layout, sql: str, parameters: Sequence[object], problems: list[str]
) -> list[tuple[Any, ...]]:
    """The rows of a query; what it was without is added to the problems, once."""
    found = query_results(layout, sql, parameters)
    problems += [problem for problem in found.problems if problem not in problems]
    return found.rows
