"""Statistics of results: pure functions of counts, without any table.

Source: McNemar 1947 (paired shares; here its exact form), Clopper and Pearson 1934 (interval of a
share), Holm 1979 (many tests).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats


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
