"""Intervals (95%) and tests: of a share, over the seeds of an experiment, and of two runs on the same puzzles.

Wilson's interval is for independent rows: a test split without augmentation.

A run's test has an interval over puzzles; only other seeds show how much the result varies with the seed. With few
seeds the spread is poorly known, which Student's t accounts for.

Source: Wilson 1927 (interval of a share); Student 1908 (interval and test of the mean of a small sample); McNemar 1947
(paired shares; here its exact form), Tango 1998 (score interval of their difference), Holm 1979 (many tests).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import optimize, stats

from trm_eval.errors import StatisticsError

ROUNDING = 1e-12
"""Rounding tolerance between equal values, relative to the largest one."""


def check_columns(frame: pl.DataFrame, *names: str) -> None:
    """Check that a frame has the columns, without missing values.

    Raises:
        StatisticsError: A column or a value is missing; the message names the column.
    """
    for name in names:
        if name not in frame.columns:
            raise StatisticsError(f"no column {name!r}; there are: {', '.join(frame.columns)}")
        if missing := frame[name].null_count():
            raise StatisticsError(
                f"{name}: {missing} of {frame.height} rows have no value; leave them out, or find out why"
            )


def numbers(frame: pl.DataFrame, name: str) -> NDArray[np.float64]:
    """Return a column of finite numbers.

    Raises:
        StatisticsError: The column does not exist, or has values that are not finite numbers.
    """
    check_columns(frame, name)
    kind = frame[name].dtype
    if not (kind.is_numeric() or kind == pl.Boolean):
        raise StatisticsError(f"{name}: has no numbers but {kind}")
    found = frame[name].cast(pl.Float64).to_numpy()
    if not np.isfinite(found).all():
        raise StatisticsError(
            f"{name}: has {found[~np.isfinite(found)][0]}, where only finite numbers mean something"
        )
    return found


LEVEL = 0.95


class Interval(NamedTuple):
    """An estimate with the ends of its interval."""

    value: float
    low: float
    high: float


def wilson(right: int, count: int) -> Interval:
    """Return a share and its interval, as `wilson_low` and `wilson_high` in SQL.

    Raises:
        StatisticsError: There are no rows, or `right` is larger than `count`.
    """
    if not 0 <= right <= count or count == 0:
        raise StatisticsError(f"{right} right of {count}: no share")
    found = stats.binomtest(right, count).proportion_ci(LEVEL, method="wilson")
    return Interval(right / count, float(found.low), float(found.high))


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


def across_seeds(frame: pl.DataFrame, value: str, *, seed: str = "seed") -> AcrossSeeds:
    """Return the mean of a number over seeds, and its interval.

    Args:
        frame: A row for each seed, of one experiment.
        value: Numeric column, such as `exact_accuracy`.
        seed: Column of the seeds.

    Raises:
        StatisticsError: There is one seed, one occurs twice, or all gave the same number.
    """
    _check_seeds(frame, seed)
    values = numbers(frame, value)
    return _of(values, value, float(np.abs(values).max()))


def difference_across_seeds(
    frame: pl.DataFrame, value: str, *, of: str, a: str, b: str, seed: str = "seed"
) -> AcrossSeeds:
    """Return the difference of two experiments, second minus first, over the seeds that both have.

    Args:
        frame: One row per experiment and seed.
        value: Numeric column.
        of: Column with the experiments' names.
        a: Name of the first experiment.
        b: Name of the second experiment.
        seed: Column of the seeds.

    Raises:
        StatisticsError: They share fewer than two seeds, one occurs twice, or all differences are the same.
    """
    check_columns(frame, of)
    sides: list[pl.DataFrame] = []
    for name in (a, b):
        side = frame.filter(pl.col(of) == name)
        if not side.height:
            raise StatisticsError(
                f"no run of {name!r} in {of}; there are: {', '.join(map(str, frame[of].unique().sort()))}"
            )
        _check_once(side, seed, name)
        sides.append(side.select(pl.col(seed), pl.col(value)))
    both = sides[0].join(sides[1], on=seed, suffix="_b").sort(seed)
    if both.height < 2:
        raise StatisticsError(
            f"{a} and {b} share {both.height} seed{'s' * (both.height != 1)}: the spread over seeds cannot be known; "
            "train both with further seeds (--seed)"
        )
    of_a, of_b = numbers(both, value), numbers(both, f"{value}_b")
    largest = float(max(np.abs(of_a).max(), np.abs(of_b).max()))
    return _of(of_b - of_a, f"{value} of {b} less {a}", largest)


def _of(values: NDArray[np.float64], what: str, largest: float) -> AcrossSeeds:
    """Return statistics of values computed from numbers up to `largest`; rounding is not counted as spread."""
    count, mean, std = len(values), float(values.mean()), float(values.std(ddof=1))
    if np.ptp(values) <= ROUNDING * largest:
        raise StatisticsError(
            f"{what}: is {mean:g} for each of {count} seeds; from no spread no interval follows (are they one run?)"
        )
    error = std / math.sqrt(count)
    half = float(stats.t.ppf((1 + LEVEL) / 2, count - 1)) * error
    p_value = 2 * float(stats.t.sf(abs(mean) / error, count - 1))
    return AcrossSeeds(count, mean, std, mean - half, mean + half, p_value)


def _check_seeds(frame: pl.DataFrame, seed: str) -> None:
    _check_once(frame, seed, "this experiment")
    if frame.height < 2:
        raise StatisticsError(
            f"{frame.height or 'no'} seed: how much another would differ cannot be known, so that no interval can be "
            "given; train further seeds (--seed)"
        )


def _check_once(frame: pl.DataFrame, seed: str, name: str) -> None:
    check_columns(frame, seed)
    twice = frame[seed].filter(frame[seed].is_duplicated())
    if len(twice):
        raise StatisticsError(
            f"seed {twice[0]} of {name}: got {int((twice == twice[0]).sum())} rows; expected one for each seed"
        )


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
