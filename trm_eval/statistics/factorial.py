"""Analysis of variance of a full factorial group: factors and interactions.

In a full factorial group, every combination of the factors' values was run equally often. Then the sums of squares of
factors and interactions are independent and add up; for other groups there are no such shares.

Source: Fisher 1925.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
import polars as pl
from scipy import stats

from trm_eval.errors import StatisticsError
from trm_eval.statistics.columns import ROUNDING, check_columns, numbers

RESIDUAL = "residual"
"""Name of the variation between replicates."""


@dataclass(frozen=True)
class Effect:
    """A factor, an interaction, or the residual.

    Attributes:
        factors: Names of the columns; empty for the residual.
        df: Degrees of freedom.
        sum_squares: Part of the sum of squares about the mean that it explains.
        share: Share of the sum of squares of all effects (0 to 1); None for the residual.
        eta_squared: Share of the total sum of squares, residual included (0 to 1).
        f: Its mean square divided by that of the residual; None without replicates, or if these do not differ.
        p_value: Probability of such a large f if it explained nothing; None without f.
    """

    factors: tuple[str, ...]
    df: int
    sum_squares: float
    share: float | None
    eta_squared: float
    f: float | None = None
    p_value: float | None = None

    @property
    def name(self) -> str:
        """Name for display."""
        return " x ".join(self.factors) or RESIDUAL


def anova(frame: pl.DataFrame, value: str, factors: Sequence[str]) -> list[Effect]:
    """Return what each factor and interaction explains of a number, the largest first; the residual comes last.

    Args:
        frame: A row for each run; runs of the same combination are replicates (seeds).
        value: Numeric column, such as `exact_accuracy`.
        factors: Columns of the varied quantities.

    Raises:
        StatisticsError: The group is not a full factorial (the message says which combination is missing, or how often
            each was run), or nothing varies.
    """
    values, names = numbers(frame, value), list(factors)
    replicates = _replicates(frame, names)
    if np.ptp(values) == 0:
        raise StatisticsError(f"{value}: is {values[0]:g} in all {len(values)} runs; no variation to explain")
    centred = frame.select(*names, (pl.col(value).cast(pl.Float64) - values.mean()).alias(value))
    # The effect of a combination beyond its parts, computed from small to large combinations.
    parts: dict[tuple[str, ...], np.ndarray] = {}
    levels = {name: frame[name].n_unique() for name in names}
    found: list[tuple[tuple[str, ...], int, float]] = []
    for size in range(1, len(names) + 1):
        for chosen in combinations(names, size):
            means = centred.select(pl.col(value).mean().over(list(chosen)))[value].to_numpy()
            inner = (parts[part] for less in range(1, size) for part in combinations(chosen, less))
            parts[chosen] = means - sum(inner, np.zeros(len(means)))
            found.append(
                (chosen, prod(levels[name] - 1 for name in chosen), float((parts[chosen] ** 2).sum()))
            )
    total = float(((values - values.mean()) ** 2).sum())
    explained = sum(squares for _, _, squares in found)
    left_df = len(values) - len(values) // replicates
    within = values - frame.select(pl.col(value).cast(pl.Float64).mean().over(names))[value].to_numpy()
    differ = np.abs(within).max() > ROUNDING * np.abs(values).max()
    left = float((within**2).sum()) if left_df and differ else 0.0
    effects = [
        Effect(
            chosen,
            df,
            squares,
            squares / explained if explained else 0.0,
            squares / total,
            *_test(squares / df, df, left, left_df),
        )
        for chosen, df, squares in found
    ]
    effects.sort(key=lambda effect: -effect.sum_squares)
    return effects + ([Effect((), left_df, left, None, left / total)] if left_df else [])


def _test(mean_square: float, df: int, left: float, left_df: int) -> tuple[float | None, float | None]:
    if not left_df or left == 0:
        return None, None
    f = mean_square / (left / left_df)
    return f, float(stats.f.sf(f, df, left_df))


def _replicates(frame: pl.DataFrame, factors: list[str]) -> int:
    """Return how often each combination was run."""
    check_columns(frame, *factors)
    if not factors or len(set(factors)) < len(factors):
        raise StatisticsError(
            f"factors {', '.join(factors) or '(none)'}: each of at least one is needed once"
        )
    for name in factors:
        if frame[name].n_unique() < 2:
            raise StatisticsError(f"{name}: does not vary in this group")
    counted = frame.group_by(factors).len()
    everything = frame.select(pl.col(factors[0]).unique())
    for name in factors[1:]:
        everything = everything.join(frame.select(pl.col(name).unique()), how="cross")
    missing = everything.join(counted, on=factors, how="anti").sort(factors)
    if missing.height:
        first = ", ".join(f"{name} {value}" for name, value in missing.row(0, named=True).items())
        raise StatisticsError(
            f"no full factorial of {', '.join(factors)}: {missing.height} of {everything.height} combinations were not "
            f"run, the first {first}"
        )
    least, most = counted["len"].min(), counted["len"].max()
    if least != most:
        raise StatisticsError(
            f"no balanced factorial of {', '.join(factors)}: combinations have {least} to {most} runs; keep the seeds "
            "that all have"
        )
    assert isinstance(least, int)
    return least
