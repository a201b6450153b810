"""Statistics over the seeds of an experiment: the mean of its runs, and the difference of two experiments.

A run's test has an interval over puzzles; only other seeds show how much the result varies with the seed. With few
seeds the spread is poorly known, which Student's t accounts for.

Source: Student 1908 (interval and test of the mean of a small sample).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from trm_eval.errors import StatisticsError
from trm_eval.statistics.columns import ROUNDING, check_columns, numbers
from trm_eval.statistics.intervals import LEVEL, check_level


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


def across_seeds(frame: pl.DataFrame, value: str, *, seed: str = "seed", level: float = LEVEL) -> AcrossSeeds:
    """Return the mean of a number over seeds, and its interval.

    Args:
        frame: A row for each seed, of one experiment.
        value: Numeric column, such as `exact_accuracy`.
        seed: Column of the seeds.
        level: Confidence level.

    Raises:
        StatisticsError: There is one seed, one occurs twice, or all gave the same number.
    """
    _check_seeds(frame, seed)
    values = numbers(frame, value)
    return _of(values, value, level, float(np.abs(values).max()))


def difference_across_seeds(
    frame: pl.DataFrame, value: str, *, of: str, a: str, b: str, seed: str = "seed", level: float = LEVEL
) -> AcrossSeeds:
    """Return the difference of two experiments, second minus first, over the seeds that both have.

    Args:
        frame: One row per experiment and seed.
        value: Numeric column.
        of: Column with the experiments' names.
        a: Name of the first experiment.
        b: Name of the second experiment.
        seed: Column of the seeds.
        level: Confidence level.

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
    return _of(of_b - of_a, f"{value} of {b} less {a}", level, largest)


def _of(values: NDArray[np.float64], what: str, level: float, largest: float) -> AcrossSeeds:
    """Return statistics of values computed from numbers up to `largest`; rounding is not counted as spread."""
    check_level(level)
    count, mean, std = len(values), float(values.mean()), float(values.std(ddof=1))
    if np.ptp(values) <= ROUNDING * largest:
        raise StatisticsError(
            f"{what}: is {mean:g} for each of {count} seeds; from no spread no interval follows (are they one run?)"
        )
    error = std / math.sqrt(count)
    half = float(stats.t.ppf((1 + level) / 2, count - 1)) * error
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
