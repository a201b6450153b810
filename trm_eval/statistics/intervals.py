"""Intervals of a share and of a mean.

Wilson's interval is for independent rows: a test split without augmentation. The bootstrap resamples whole groups, so
that augmentations of one puzzle, which fail together, do not count as independent puzzles.

Source: Wilson 1927 (interval of a share); Efron 1979 (bootstrap; here the percentile bootstrap over groups).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy import stats

from trm_eval.errors import StatisticsError
from trm_eval.statistics.columns import booleans, check_columns, numbers

LEVEL = 0.95
BATCH_VALUES = 4_000_000
"""Number of values that a bootstrap draws at once; limits its memory."""


class Interval(NamedTuple):
    """An estimate with the ends of its interval."""

    value: float
    low: float
    high: float


def wilson(right: int, count: int, *, level: float = LEVEL) -> Interval:
    """Return a share and its interval, as `wilson_low` and `wilson_high` in SQL.

    Raises:
        StatisticsError: There are no rows, or `right` is larger than `count`.
    """
    if not 0 <= right <= count or count == 0:
        raise StatisticsError(f"{right} right of {count}: no share")
    found = stats.binomtest(right, count).proportion_ci(check_level(level), method="wilson")
    return Interval(right / count, float(found.low), float(found.high))


def share_intervals(
    frame: pl.DataFrame, right: str, *, by: Sequence[str] = (), level: float = LEVEL
) -> pl.DataFrame:
    """Return the share of rows where a column is true, with its Wilson interval, a row for each value of `by`.

    Args:
        frame: One row per puzzle.
        right: Boolean column.
        by: Columns that define strata; empty for all rows together.
        level: Confidence level.

    Returns:
        The columns of `by` in their order, then `count`, `right`, `share`, `low`, `high`.

    Raises:
        StatisticsError: There are no rows, or a value is missing.
    """
    booleans(frame, right)
    if not frame.height:
        raise StatisticsError(f"{right}: no rows, so no share")
    keys = list(by)
    counts = [pl.len().alias("count"), pl.col(right).sum().alias("right")]
    counted = frame.group_by(keys).agg(counts).sort(keys) if keys else frame.select(counts)
    found = [wilson(k, n, level=level) for n, k in counted.select("count", "right").iter_rows()]
    columns = [
        pl.Series(name, values)
        for name, values in zip(("share", "low", "high"), zip(*found, strict=True), strict=True)
    ]
    return counted.with_columns(columns)


def bootstrap_mean(
    frame: pl.DataFrame,
    column: str,
    *,
    seed: int,
    group: str | None = None,
    resamples: int = 10_000,
    level: float = LEVEL,
) -> Interval:
    """Return the mean of a column, and its interval from resampling whole groups of rows.

    Args:
        frame: One row per example.
        column: Numeric or boolean column.
        seed: Seed of the draws.
        group: Column that groups dependent rows, such as `group_index`; None if all rows are independent.
        resamples: Number of draws.
        level: Confidence level.

    Raises:
        StatisticsError: There are fewer than two groups, or all have the same mean: an interval of zero width would be
            misleading.
    """
    values = numbers(frame, column)
    if group is None:
        sums, counts = values, np.ones(len(values))
    else:
        check_columns(frame, group)
        owners = np.unique(frame[group].to_numpy(), return_inverse=True)[1]
        sums, counts = np.bincount(owners, values), np.bincount(owners).astype(np.float64)
    if len(sums) < 2:
        raise StatisticsError(f"{column}: {len(sums)} groups of rows; at least 2 are needed to draw from")
    if np.ptp(sums / counts) == 0:
        raise StatisticsError(
            f"{column}: has the mean {sums[0] / counts[0]:g} in every group of rows, so that no draw differs; "
            "of a share, Wilson's interval says more"
        )
    generator, at_a_time = np.random.default_rng(seed), max(BATCH_VALUES // len(sums), 1)
    means: list[np.ndarray] = []
    for begin in range(0, resamples, at_a_time):
        drawn = generator.integers(len(sums), size=(min(at_a_time, resamples - begin), len(sums)))
        means.append(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    tail = (1 - check_level(level)) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return Interval(float(sums.sum() / counts.sum()), float(low), float(high))


def check_level(level: float) -> float:
    """Return the confidence level.

    Raises:
        StatisticsError: It is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise StatisticsError(f"level {level:g}: between 0 and 1")
    return level
