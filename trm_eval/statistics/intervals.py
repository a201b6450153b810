"""Intervals (95%) and tests: over the seeds of an experiment, and of two runs on the same puzzles.

A run's test has an interval over puzzles; only other seeds show how much the result varies with the seed. With few
seeds the spread is poorly known, which Student's t accounts for.

Source: Student 1908 (interval and test of the mean of a small sample); McNemar 1947 (paired shares; here its exact
form), Tango 1998 (score interval of their difference), Holm 1979 (many tests).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy import optimize, stats

from trm_eval.errors import StatisticsError

ROUNDING = 1e-9
"""Largest difference of accuracies that is rounding."""


@dataclass(frozen=True)
class AcrossSeeds:
    """A number over several runs that differ in their seed.

    Attributes:
        count: Number of seeds.
        mean: Mean over the seeds.
        std: Sample standard deviation over the seeds.
        low: Lower end of the interval of the mean.
        high: Upper end of the interval.
        p_value: Probability of a mean this far from 0 if it were 0; useful for differences.
    """

    count: int
    mean: float
    std: float
    low: float
    high: float
    p_value: float


def across_seeds(values: Sequence[float]) -> AcrossSeeds:
    """Return the mean of a number over seeds, and its interval (Student's t).

    Args:
        values: One number for each seed: accuracies, or differences of two experiments.

    Raises:
        StatisticsError: There are fewer than two seeds, or all gave the same number.
    """
    count = len(values)
    if count < 2:
        raise StatisticsError(
            f"{count} seed{'s' * (count != 1)}: the spread over seeds cannot be known; train further seeds (--seed)"
        )
    if np.ptp(values) <= ROUNDING:
        raise StatisticsError(
            f"{np.mean(values):g} for each of {count} seeds: from no spread no interval follows (are they one run?)"
        )
    test = cast(Any, stats.ttest_1samp(values, 0))
    low, high = test.confidence_interval(0.95)
    mean, std = float(np.mean(values)), float(np.std(values, ddof=1))
    return AcrossSeeds(count, mean, std, float(low), float(high), float(test.pvalue))


Z = float(stats.norm.ppf(0.975))
"""Quantile of the normal distribution for a two-sided 95% interval."""


@dataclass(frozen=True)
class Paired:
    """Results of two runs on the same puzzles.

    Attributes:
        count: Number of puzzles that both answered.
        only_a: Number that only the first run solves.
        only_b: Number that only the second run solves.
    """

    count: int
    only_a: int
    only_b: int

    def turned(self) -> Paired:
        """Return the result with the second run first."""
        return Paired(self.count, self.only_b, self.only_a)

    @property
    def difference(self) -> float:
        """Exact accuracy of the second run minus that of the first."""
        return (self.only_b - self.only_a) / self.count

    @cached_property
    def interval(self) -> tuple[float, float]:
        """95% interval of the difference (Tango): all differences that a score test does not reject.

        The exact p-value is conservative, so near 5% they may disagree: 0 is outside the interval and p is above 5%.
        """
        return -self.turned()._high(), self._high()

    def _high(self) -> float:
        """Return the largest difference that the score test does not reject."""
        if self.only_b == self.count:
            return 1.0
        nearly = 1 - 1e-12
        if self._score(nearly) > -Z:
            return 1.0
        return cast(float, optimize.brentq(lambda d: self._score(d) + Z, self.difference, nearly, xtol=1e-12))

    def _score(self, difference: float) -> float:
        """Return the score statistic of a difference: standard deviations of the counts above it."""
        n, b, c = self.count, self.only_b, self.only_a
        linear = (2 * n - b + c) * difference - b - c
        constant = -c * difference * (1 - difference)
        # Maximum-likelihood share that only the first run solves, given this difference.
        share = (math.sqrt(max(linear * linear - 8 * n * constant, 0.0)) - linear) / (4 * n)
        variance = n * (2 * share + difference * (1 - difference))
        return (b - c - n * difference) / math.sqrt(variance) if variance > 0 else 0.0

    @property
    def p_value(self) -> float:
        """Probability of flips as uneven as these if both were equally good (exact McNemar)."""
        flips = self.only_a + self.only_b
        return 1.0 if not flips else float(stats.binomtest(self.only_a, flips).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number (Holm), in the same order."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, (len(p_values) - rank) * p_values[i])
        corrected[i] = min(largest, 1.0)
    return corrected
