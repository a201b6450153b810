"""Statistics of results: pure functions of counts, without any table.

Source: McNemar 1947 (paired shares; here its exact form), Holm 1979 (many tests).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

Z_95 = 1.959964
"""Standard normal quantile of a two-sided 95% interval."""


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

    @property
    def difference(self) -> float:
        """Exact accuracy of the second less that of the first."""
        return (self.only_b - self.only_a) / self.count

    @property
    def interval(self) -> tuple[float, float]:
        """95% interval of the difference, which knows that the puzzles are the same (Wald)."""
        flips = self.only_a + self.only_b
        spread = flips - (self.only_b - self.only_a) ** 2 / self.count
        half = Z_95 * math.sqrt(max(spread, 0.0)) / self.count
        return max(self.difference - half, -1.0), min(self.difference + half, 1.0)

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
