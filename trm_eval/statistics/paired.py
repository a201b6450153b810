"""Paired tests of two runs on the same puzzles, with correction for several comparisons.

Source: McNemar 1947 (paired shares; here its exact form), Tango 1998 (score interval of their difference), Holm 1979
(many tests).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import polars as pl
from scipy import optimize, stats

from trm_eval.errors import StatisticsError
from trm_eval.statistics.columns import booleans, numbers

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


def pair(frame: pl.DataFrame, a: str, b: str) -> Paired:
    """Compare two runs, given a frame with a row for each puzzle and a boolean column for each run.

    Raises:
        StatisticsError: There are no rows, or a value is missing.
    """
    of_a, of_b = booleans(frame, a), booleans(frame, b)
    if not len(of_a):
        raise StatisticsError(f"{a}, {b}: no puzzle was asked of both")
    return Paired(len(of_a), int((of_a & ~of_b).sum()), int((of_b & ~of_a).sum()))


def with_tests(
    frame: pl.DataFrame, *, count: str = "puzzles", only_a: str = "only_a", only_b: str = "only_b"
) -> pl.DataFrame:
    """Add tests to pairs of runs: `trm_eval.sql("@pairs")` with p-values.

    Args:
        frame: A row for each pair.
        count: Column with the number of puzzles that both answered.
        only_a: Column with the number that only the first run solves.
        only_b: Column with the number that only the second run solves.

    Returns:
        The frame with `difference` (exact accuracy of the second minus the first), `low` and `high` (its 95% interval),
        `p_value` (exact McNemar) and `p_holm` (corrected for all rows of the frame).

    Raises:
        StatisticsError: A count is missing, or the counts of a pair are inconsistent.
    """
    counts = [numbers(frame, name) for name in (count, only_a, only_b)]
    pairs = [Paired(int(n), int(a), int(b)) for n, a, b in zip(*counts, strict=True)]
    for found in pairs:
        if min(found.only_a, found.only_b) < 0 or found.count < max(found.only_a + found.only_b, 1):
            raise StatisticsError(
                f"{found.only_a} and {found.only_b} puzzles right in one run alone, of {found.count}: cannot be"
            )
    tests = {
        "difference": [found.difference for found in pairs],
        "low": [found.interval[0] for found in pairs],
        "high": [found.interval[1] for found in pairs],
        "p_value": [found.p_value for found in pairs],
    }
    tests["p_holm"] = holm(tests["p_value"])
    return frame.with_columns(pl.Series(name, values, dtype=pl.Float64) for name, values in tests.items())
