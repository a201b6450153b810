"""What a report says of experiments: their tests with intervals, curves, and which differ; every number by SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trm_data.storage.root import Layout
from trm_eval.errors import EvalError
from trm_eval.statistics import Paired, holm
from trm_eval.tables.query import query_results
from trm_train.experiments.guide import Guide
from trm_train.experiments.registry import Experiment, groups_of
from trm_train.experiments.setting import Setting

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
    train_seconds: float


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
        against_baseline: Every other run against the baseline's.
        ends: The smallest against the largest, where a number varies; None where they cannot be compared.
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


def gather(layout: Layout, items: Sequence[Experiment], setting: Setting) -> list[Group]:
    """What came of experiments at one scale and data, by group; groups without any result are left out.

    Args:
        layout: The root.
        items: Experiments.
        setting: Scale and data.

    Raises:
        EvalError: None of them was tested.
    """
    members = _members(layout, [item.name for item in items], setting)
    if not members:
        raise EvalError(
            f"none of {len(items)} experiments has been tested at {setting}: trm-train batch trains and tests them"
        )
    curves = _curves(layout, sorted({member.run for found in members.values() for member in found}))
    return [
        made
        for name, of_group in groups_of(items).items()
        if (made := _group(layout, name, of_group, members, curves)) is not None
    ]


def _group(
    layout: Layout,
    name: str,
    items: Sequence[Experiment],
    members: dict[str, list[Member]],
    curves: dict[str, tuple[list[int], list[float]]],
) -> Group | None:
    found = [member for item in items for member in members.get(item.name, [])]
    guide = items[0].guide
    if not found or guide is None:
        return None
    quantity = items[0].quantity
    found.sort(
        key=lambda member: (0.0 if member.value is None else member.value, member.experiment, member.seed)
    )
    baseline = next((member for member in found if "baseline" in (member.alias_of, member.experiment)), None)
    others = [] if baseline is None else [each for each in found if each.run != baseline.run]
    pairs = [(baseline, each) for each in others if baseline is not None]
    if quantity is not None and found[0].run != found[-1].run:
        pairs.append((found[0], found[-1]))
    compared = _compare(layout, pairs)
    ends = (
        compared.pop() if quantity is not None and compared and compared[-1].b.run == found[-1].run else None
    )
    return Group(
        name=name,
        guide=guide,
        quantity="" if quantity is None else f"{quantity.name} ({quantity.unit})",
        log=quantity is not None and quantity.log,
        members=found,
        missing=[item.name for item in items if item.name not in members],
        curves={member.run: curves[member.run] for member in found if member.run in curves},
        against_baseline=compared,
        ends=ends,
    )


def _members(layout: Layout, names: Sequence[str], setting: Setting) -> dict[str, list[Member]]:
    rows = query_results(layout, MEMBERS_SQL, [setting.scale, setting.data, list(names)]).rows
    found: dict[str, list[Member]] = {}
    for row in rows:
        member = Member(*row)
        found.setdefault(member.experiment, []).append(member)
    return found


def _curves(layout: Layout, runs: list[str]) -> dict[str, tuple[list[int], list[float]]]:
    found: dict[str, tuple[list[int], list[float]]] = {}
    for run, step, exact in query_results(layout, CURVES_SQL, [runs]).rows:
        steps, shares = found.setdefault(run, ([], []))
        steps.append(step)
        shares.append(exact)
    return found


def _compare(layout: Layout, pairs: Sequence[tuple[Member, Member]]) -> list[Comparison]:
    """Compare runs on the same puzzles, in the order of the pairs; pairs on other puzzles are left out."""
    same = [(a, b) for a, b in pairs if a.split_digest == b.split_digest]
    if not same:
        return []
    keys = [f"{a.evaluation} {b.evaluation}" for a, b in same]
    rows = query_results(layout, FLIPS_SQL, [keys]).rows
    flips = {f"{a} {b}": Paired(*counts) for a, b, *counts in rows}
    found = [flips[key] for key in keys]
    corrected = holm([paired.p_value for paired in found])
    return [
        Comparison(a, b, paired, p_value)
        for (a, b), paired, p_value in zip(same, found, corrected, strict=True)
    ]
