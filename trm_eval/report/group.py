"""What is known of a group of experiments: its runs with their tests, and how they compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trm_eval.report.trend import Trend
from trm_eval.statistics import Paired
from trm_train.experiments.claim import Claim
from trm_train.experiments.guide import Guide

LABEL = 28
"""Characters of what varies that fit beside a figure."""


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
    halted_share: float | None
    mean_halting_steps: float | None
    supervision_steps: int
    total_steps: int
    training_flops: float | None
    train_seconds: float | None

    @property
    def solves_none(self) -> bool:
        """Whether the test has no puzzle that it solves: training failed, or did not get that far."""
        return self.exact_count == 0


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
        missing: Names of those that were not, with what they lack where they have a run.
        curves: Validations of each run: steps and exact accuracies.
        against_baseline: Every other run against the baseline's of the same seed.
        ends: The smallest against the largest of one seed, where a number varies; None where they cannot be compared.
        trend: The curve over what varies; None where that is no number.
        depths: What each test gives after 1, 2, ... supervision steps, by run: rows of `DEPTH_SQL`.
        claims: What its guides claim.
        paired: Pairs of runs on the same puzzles, by their names, the second's advantage counted: those compared, and
            those that a claim is about.
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
    claims: tuple[Claim, ...] = ()
    paired: dict[tuple[str, str], Paired] = field(default_factory=dict[tuple[str, str], Paired])

    @property
    def evaluations(self) -> list[str]:
        """Ids of its tests, each once, in the order of the members."""
        return list(dict.fromkeys(member.evaluation for member in self.members))

    def names(self) -> dict[str, str]:
        """What each run is called in a legend."""
        seeds = len({member.seed for member in self.members}) > 1
        labels = self.labels()
        return {
            member.run: labels[member.experiment] + (f", seed {member.seed}" if seeds else "")
            for member in self.members[::-1]
        }

    def labels(self) -> dict[str, str]:
        """What each experiment is called where there is little room: what varies, if that is short for all."""
        short = all(0 < len(member.varies) <= LABEL for member in self.members)
        return {member.experiment: member.varies if short else member.experiment for member in self.members}


def shown_before(groups: Sequence[Group]) -> dict[str, str]:
    """Groups of which one run alone is known, and that one shown by an earlier group: the names of both."""
    found: dict[str, str] = {}
    first: dict[str, str] = {}
    for group in groups:
        runs = {member.run for member in group.members}
        if len(runs) == 1 and runs <= set(first):
            found[group.name] = first[min(runs)]
        for run in runs:
            first.setdefault(run, group.name)
    return found
