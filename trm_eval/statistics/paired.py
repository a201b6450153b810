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
"""Standard deviations to either side that hold 95%."""


@dataclass(frozen=True)
class Paired:
    """Two runs on the same puzzles.

    Attributes:
        count: Puzzles that both were asked.
        only_a: Right in the first alone.
        only_b: Right in the second alone.
    """

    count: int
    only_a: int
    only_b: int

    def turned(self) -> Paired:
        """The same with the second run first."""
        return Paired(self.count, self.only_b, self.only_a)

    @property
    def difference(self) -> float:
        """Exact accuracy of the second less that of the first."""
        return (self.only_b - self.only_a) / self.count

    @cached_property
    def interval(self) -> tuple[float, float]:
        """95% interval of the difference (Tango): the differences that a score test does not reject.

        Near 5% the exact p-value, which is never too small, may say less than it: 0 is outside and p is above 5%.
        """
        return -self.turned()._high(), self._high()

    def _high(self) -> float:
        """The largest difference that the score test does not reject."""
        if self.only_b == self.count:
            return 1.0
        nearly = 1 - 1e-12
        if self._score(nearly) > -Z:
            return 1.0
        return cast(float, optimize.brentq(lambda d: self._score(d) + Z, self.difference, nearly, xtol=1e-12))

    def _score(self, difference: float) -> float:
        """How many standard deviations the counts are above those of a difference."""
        n, b, c = self.count, self.only_b, self.only_a
        linear = (2 * n - b + c) * difference - b - c
        constant = -c * difference * (1 - difference)
        # The likeliest share that the first alone solves, if this is the difference.
        share = (math.sqrt(max(linear * linear - 8 * n * constant, 0.0)) - linear) / (4 * n)
        variance = n * (2 * share + difference * (1 - difference))
        return (b - c - n * difference) / math.sqrt(variance) if variance > 0 else 0.0

    @property
    def p_value(self) -> float:
        """Chance of flips as uneven as these if both were equally good (exact McNemar)."""
        flips = self.only_a + self.only_b
        return 1.0 if not flips else float(stats.binomtest(self.only_a, flips).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number, in the same order."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, (len(p_values) - rank) * p_values[i])
        corrected[i] = min(largest, 1.0)
    return corrected


def pair(frame: pl.DataFrame, a: str, b: str) -> Paired:
    """Two runs, from a frame with a row for each puzzle and a column for each run that says whether it was right.

    Raises:
        StatisticsError: There are no rows, or one was not asked of both.
    """
    of_a, of_b = booleans(frame, a), booleans(frame, b)
    if not len(of_a):
        raise StatisticsError(f"{a}, {b}: no puzzle was asked of both")
    return Paired(len(of_a), int((of_a & ~of_b).sum()), int((of_b & ~of_a).sum()))


def with_tests(
    frame: pl.DataFrame, *, count: str = "puzzles", only_a: str = "only_a", only_b: str = "only_b"
) -> pl.DataFrame:
    """Pairs of runs with their tests: `trm_eval.sql("@pairs")` with a p-value each.

    Args:
        frame: A row for each pair.
        count: Column of puzzles that both were asked.
        only_a: Column of those right in the first alone.
        only_b: Column of those right in the second alone.

    Returns:
        The frame with `difference` (of exact accuracy, the second less the first), `low` and `high` (its 95% interval),
        `p_value` (exact McNemar) and `p_holm` (corrected for all rows of the frame).

    Raises:
        StatisticsError: A count is missing, or the pairs do not fit into it.
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
