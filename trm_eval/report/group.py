"""Data of a group of experiments: runs with evaluations, comparisons, and the fitted curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trm_eval.errors import StatisticsError
from trm_eval.statistics import Band, Fit, Paired, band, choose_fit, saturation
from trm_train.experiments.claim import Claim
from trm_train.experiments.guide import Guide

POINTS = 60
"""Number of positions at which a curve is drawn."""
RESAMPLES = 400
LABEL = 40
"""Maximum length of the varied value beside a figure, in characters."""


@dataclass(frozen=True)
class Member:
    """An experiment's run with one seed, and its test; the fields are columns of the view `study`.

    `total_steps`, `training_flops` and `train_seconds` are those of the tested checkpoint, `planned_steps` of the run.
    """

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
    planned_steps: int | None = None
    series: str | None = None

    @property
    def steps(self) -> str:
        """Step of the tested checkpoint, with the number of planned steps if there are more."""
        most = self.planned_steps or 0
        return f"{self.total_steps:,}{f' of {most:,}' if most > self.total_steps else ''}"

    @property
    def solves_none(self) -> bool:
        """Whether the test solves no puzzle: training failed or did not get far enough."""
        return self.exact_count == 0


@dataclass(frozen=True)
class Comparison:
    """Two runs of one group on the same puzzles.

    Attributes:
        a: First run.
        b: Second run, whose advantage is counted.
        paired: Numbers of puzzles that they solve.
        p_value: P-value of no difference, corrected for the number of comparisons in the group.
    """

    a: Member
    b: Member
    paired: Paired
    p_value: float


@dataclass(frozen=True)
class Trend:
    """A fitted curve of exact accuracy (%) over a quantity.

    Attributes:
        fit: Curve chosen by AICc; None if no curve was fitted.
        band: Its 95% band, from curves fitted to resampled runs.
        left: Root mean square of the residuals (points).
        saturated: Smallest tested value within a point of its ceiling; None if there is none, or no ceiling.
        refused: Reason why there is no curve; empty if there is one.
    """

    fit: Fit | None = None
    band: Band | None = None
    left: float = 0.0
    saturated: float | None = None
    refused: str = ""

    def says(self, quantity: str) -> str:
        """Return a sentence about the curve, in which `quantity` is called x."""
        if self.fit is None:
            return f"no curve over {quantity} is fitted: {self.refused}."
        said = (
            f"fitted over {quantity} (x, exact % is y): {self.fit.text}, which leaves {self.left:.1f} points"
        )
        if self.fit.offset is None:
            slope = float(self.fit.b * np.log10(2))
            points = "less than 0.1 points either way" if abs(slope) < 0.1 else f"{slope:+.1f} points"
            said += f"; {points} for each doubling"
        elif self.fit.ceiling is not None:
            said += f"; its ceiling is {self.fit.ceiling:.1f}%"
            said += "" if self.saturated is None else f", within a point of it from {self.saturated:,.4g} on"
        if self.band is not None and ((curve := self.fit.at(self.band.x)) > 100).any():
            said += f"; it passes 100% from {self.band.x[curve > 100].min():,.4g} on, which no accuracy can"
        return f"{said}."


def trend_of(values: Sequence[float], exact: Sequence[float]) -> Trend:
    """Fit the curve through runs.

    Args:
        values: Values of the quantity, one for each run.
        exact: Exact accuracies (0 to 1).
    """
    try:
        best = choose_fit(values, [100 * share for share in exact])
        at = np.geomspace(min(values), max(values), POINTS).clip(min(values), max(values))
        around = band(best, values, at.tolist(), seed=0, resamples=RESAMPLES)
    except StatisticsError as error:
        return Trend(refused=str(error))
    left = float(np.sqrt(best.rss / best.count))
    return Trend(best, around, left, saturation(best, sorted(set(values)), point=1.0))


@dataclass(frozen=True)
class Group:
    """A group of experiments and its results.

    Attributes:
        name: Name of the group.
        guide: Its question and expectation.
        quantity: Varied quantity with its unit, if it is a number; otherwise empty.
        log: Whether the quantity spans orders of magnitude.
        members: Tested runs, ordered by the varied quantity.
        missing: Names of untested experiments, with what is lacking if they have a run.
        curves: Validations of each run: rows of `CURVES_SQL`.
        against_baseline: Every other run compared with the baseline of the same seed.
        trend: Curve over the varied quantity; None if it is not a number.
        depths: Results of each test after 1, 2, ... supervision steps, by run: rows of `DEPTH_SQL`.
        claims: Claims of its guide.
        paired: Results of pairs of runs on the same puzzles, by their names, counting the second's advantage: the
            compared pairs, and those that a claim is about.
    """

    name: str
    guide: Guide
    quantity: str
    log: bool
    members: list[Member]
    missing: list[str]
    curves: dict[str, list[dict[str, Any]]]
    against_baseline: list[Comparison]
    trend: Trend | None = None
    depths: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    claims: tuple[Claim, ...] = ()
    paired: dict[tuple[str, str], Paired] = field(default_factory=dict[tuple[str, str], Paired])

    @property
    def series(self) -> dict[str, list[Member]]:
        """Members by what varies besides the quantity; one entry with an empty name if nothing does."""
        found: dict[str, list[Member]] = {}
        for member in self.members:
            found.setdefault(member.series or "", []).append(member)
        return found

    @property
    def evaluations(self) -> list[str]:
        """Ids of its tests without duplicates, in the order of the members."""
        return list(dict.fromkeys(member.evaluation for member in self.members))

    def names(self) -> dict[str, str]:
        """Return the label of each run for a legend; the seeds of an experiment share it."""
        labels = self.labels()
        return {member.run: labels[member.experiment] for member in self.members[::-1]}

    def labels(self) -> dict[str, str]:
        """Return a short label of each experiment: the varied value if it is short for all, else the name."""
        short = all(0 < len(member.varies) <= LABEL for member in self.members)
        return {member.experiment: member.varies if short else member.experiment for member in self.members}
