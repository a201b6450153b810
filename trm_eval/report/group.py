"""Data of a group of experiments: runs with evaluations, comparisons, and the fitted curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from trm_eval.errors import StatisticsError
from trm_eval.statistics import Band, Fit, Paired, band, choose_fit, saturation
from trm_train.experiments.claim import Claim
from trm_train.experiments.guide import Guide

POINTS = 60
"""Places at which a curve is drawn."""
RESAMPLES = 400
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
    optimal_share: float | None = None

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
class Trend:
    """A curve of the exact accuracy (%) over a quantity.

    Attributes:
        fit: The curve, chosen by AICc; None without.
        band: Its 95% band, from curves fitted to drawn runs.
        left: What it leaves, root mean square (points).
        saturated: Smallest value that was run within a point of its ceiling; None where none is, or it has no ceiling.
        refused: Why there is no curve; empty where there is one.
    """

    fit: Fit | None = None
    band: Band | None = None
    left: float = 0.0
    saturated: float | None = None
    refused: str = ""

    def says(self, quantity: str) -> str:
        """What the curve says, in a sentence; `quantity` is called x in it."""
        if self.fit is None:
            return f"no curve over {quantity} is fitted: {self.refused}."
        said = (
            f"fitted over {quantity} (x, exact % is y): {self.fit.text}, which leaves {self.left:.1f} points"
        )
        if self.fit.offset is None:
            said += f"; {_per_doubling(float(self.fit.b * np.log10(2)))} for each doubling"
        elif self.fit.ceiling is not None:
            said += f"; its ceiling is {self.fit.ceiling:.1f}%"
            said += "" if self.saturated is None else f", within a point of it from {self.saturated:,.4g} on"
        if self.band is not None and ((curve := self.fit.at(self.band.x)) > 100).any():
            said += f"; it passes 100% from {self.band.x[curve > 100].min():,.4g} on, which no accuracy can"
        return f"{said}."


def _per_doubling(slope: float) -> str:
    return "less than 0.1 points either way" if abs(slope) < 0.1 else f"{slope:+.1f} points"


def trend_of(values: Sequence[float], exact: Sequence[float]) -> Trend:
    """The curve through runs.

    Args:
        values: Of the quantity, one for each run.
        exact: Exact accuracies (0 to 1).
    """
    frame = pl.DataFrame({"x": values, "y": [100 * share for share in exact]})
    try:
        best = choose_fit(frame, "x", "y")
        at = np.geomspace(min(values), max(values), POINTS).clip(min(values), max(values))
        around = band(frame, "x", "y", best.form, at.tolist(), seed=0, resamples=RESAMPLES)
    except StatisticsError as error:
        return Trend(refused=str(error))
    left = float(np.sqrt(best.rss / best.count))
    return Trend(best, around, left, saturation(best, sorted(set(values)), point=1.0))


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
        trend: The curve over what varies; None where that is not a number.
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
