"""Two runs on the same puzzles, and what many such comparisons make of each.

Source: McNemar 1947 (paired shares; here its exact form), Clopper and Pearson 1934 (interval of a
share), Holm 1979 (many tests).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from scipy import stats

from trm_eval.errors import StatisticsError
from trm_eval.statistics.columns import booleans, numbers


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

    @property
    def interval(self) -> tuple[float, float]:
        """95% interval of the difference, given how many puzzles flip: it has no 0 just where the p-value is below 5%.

        Of the share of flips that the second wins (Clopper and Pearson); where none flips, of how many might.
        """
        flips = self.only_a + self.only_b
        if not flips:
            most = 1 - 0.025 ** (1 / self.count)
            return -most, most
        share = stats.binomtest(self.only_b, flips).proportion_ci(0.95, method="exact")
        return (2 * float(share.low) - 1) * flips / self.count, (
            2 * float(share.high) - 1
        ) * flips / self.count

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
