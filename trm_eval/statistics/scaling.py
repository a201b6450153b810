"""How accuracy depends on a quantity: curves, their bands and saturation.

    power law    y = c - a * x^-b    rises to the ceiling c (a > 0), or falls to the floor c (a < 0)
    log-linear   y = a + b * log10(x)   adds b for every factor of ten, without a ceiling

For a given exponent the power law is linear in c and a, so only the exponent is searched, in one dimension: over a
grid, then within the best interval of the grid. The fit with the smaller AICc is chosen.

Source: Golub and Pereyra 1973 (separable least squares), Hurvich and Tsai 1989 (AICc).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from trm_eval.errors import StatisticsError

Array = NDArray[np.float64]

Variant = Literal["power law", "log-linear"]
LEAST: dict[Variant, int] = {"power law": 4, "log-linear": 3}
"""Minimum number of distinct x for each form: its number of parameters plus one."""
LEAST_TO_CHOOSE = 5
"""Minimum number of runs to choose a curve; AICc is undefined for fewer, even for the log-linear curve."""

EXPONENTS = np.geomspace(0.01, 20, 200)
"""Grid of exponents. At its ends, a power law is linear in log x, or a step after the first value."""
MOST_EXPONENT = 600.0
"""Maximum natural logarithm of a power, within the range of double precision."""


@dataclass(frozen=True)
class Fit:
    """A fitted curve.

    Attributes:
        form: Form of the curve.
        a: Parameter a of the formulas at the top of this file.
        b: Parameter b of these formulas.
        ceiling: c of a power law; None for a log-linear curve, or if the exponent is at an end of the search grid,
            because the numbers then do not determine where the curve ends.
        offset: Fitted c, even if it is not meaningful; None for a log-linear curve.
        count: Number of fitted runs.
        distinct: Number of distinct values of x.
        rss: Residual sum of squares.
        aicc: Akaike's criterion for small samples; infinite with too few runs.
        unit: Unit of x in a power law: 1, unless a would overflow or vanish.
    """

    form: Variant
    a: float
    b: float
    ceiling: float | None
    offset: float | None
    count: int
    distinct: int
    rss: float
    aicc: float
    unit: float = 1.0

    def at(self, x: Sequence[float] | Array) -> Array:
        """Return the values of the curve at x."""
        values = np.asarray(x, np.float64)
        if self.offset is None:
            return self.a + self.b * np.log10(values)
        return self.offset - self.a * (values / self.unit) ** -self.b

    @property
    def text(self) -> str:
        """Formula of the curve as text."""
        if self.offset is None:
            return f"y = {self.a:.4g} {'-' if self.b < 0 else '+'} {abs(self.b):.4g} log10(x)"
        x = "x" if self.unit == 1 else f"(x / {self.unit:.4g})"
        return f"y = {self.offset:.4g} {'+' if self.a < 0 else '-'} {abs(self.a):.4g} {x}^-{self.b:.4g}"


@dataclass(frozen=True)
class Band:
    """Confidence band of a curve, from curves fitted to resampled runs.

    Attributes:
        x: Positions.
        low: Lower end of the interval at each position.
        high: Upper end of the interval at each position.
    """

    x: Array
    low: Array
    high: Array


def fit(x: Sequence[float], y: Sequence[float], form: Variant) -> Fit:
    """Fit a curve by least squares.

    Args:
        x: Quantity of each run, above 0.
        y: Dependent number of each run, such as its exact accuracy.
        form: Form of the curve.

    Raises:
        StatisticsError: There are too few values of x, one is not above 0, or nothing varies; the message says which.
    """
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    distinct = len(np.unique(xs))
    if not np.isfinite([xs, ys]).all() or (xs <= 0).any():
        raise StatisticsError(f"x: has {xs.min():g}; a {form} curve is over finite values above 0")
    if distinct < LEAST[form]:
        raise StatisticsError(
            f"x: {distinct} values in {len(xs)} runs; a {form} curve has {_parameters(form)} parameters and needs "
            f"{LEAST[form]} values"
        )
    if np.ptp(ys) == 0:
        raise StatisticsError(
            f"y: is {ys[0]:g} in all {len(ys)} runs; nothing varies that a curve could follow"
        )
    return _fit(xs, ys, form)


def choose_fit(x: Sequence[float], y: Sequence[float]) -> Fit:
    """Return the curve with the smaller AICc, which penalizes the third parameter of a power law; see `fit`.

    Raises:
        StatisticsError: Neither curve can be fitted, or there are too few runs to choose.
    """
    simple = fit(x, y, "log-linear")
    if simple.count < LEAST_TO_CHOOSE:
        raise StatisticsError(
            f"{simple.count} runs: at least {LEAST_TO_CHOOSE} are needed to choose between curves; fit one by name"
        )
    if simple.distinct < LEAST["power law"]:
        return simple
    curved = fit(x, y, "power law")
    return curved if curved.aicc < simple.aicc else simple


def band(best: Fit, x: Sequence[float], at: Sequence[float], *, seed: int, resamples: int = 1000) -> Band:
    """Return the 95% band of a fitted curve at some values of x, by bootstrap.

    Runs are drawn from the curve, with normal errors as large as the residuals.

    Args:
        best: Fitted curve.
        x: Quantity of each run that it was fitted to.
        at: Values of x, above 0.
        seed: Seed of the draws.
        resamples: Number of draws.

    Raises:
        StatisticsError: A value of `at` is not above 0.
    """
    if min(at) <= 0:
        raise StatisticsError(f"at {list(at)}: values above 0 are needed")
    where, xs, generator = np.asarray(at, np.float64), np.asarray(x, np.float64), np.random.default_rng(seed)
    middle, spread = best.at(xs), math.sqrt(best.rss / (best.count - _parameters(best.form)))
    curves = [
        _fit(xs, middle + generator.normal(0, spread, len(xs)), best.form).at(where) for _ in range(resamples)
    ]
    low, high = np.quantile(np.stack(curves), [0.025, 0.975], axis=0)
    return Band(where, low, high)


def saturation(fitted: Fit, xs: Sequence[float], *, point: float) -> float | None:
    """Return the smallest tested value from which on the curve stays within a point of its ceiling.

    Args:
        fitted: Fitted curve.
        xs: Tested values; nothing is claimed beyond them.
        point: Distance to the ceiling, in the unit of y.

    Returns:
        None if no tested value is that near, or the curve has no ceiling.
    """
    if fitted.ceiling is None or fitted.a <= 0:
        return None
    near = [x for x in xs if fitted.ceiling - float(fitted.at([x])[0]) <= point]
    return min(near, default=None)


def _parameters(form: Variant) -> int:
    return LEAST[form] - 1


def _fit(xs: Array, ys: Array, form: Variant) -> Fit:
    ceiling = offset = None
    unit = 1.0
    if form == "log-linear":
        a, b, rss = _line(np.log10(xs), ys)
    else:
        # Relative to the geometric mean, powers neither overflow nor vanish, as they might in the unit of x.
        mean = float(np.exp(np.log(xs).mean()))
        b, at_an_end = _exponent(xs / mean, ys)
        offset, slope, rss = _line((xs / mean) ** -b, ys)
        in_x = abs(b * math.log(mean)) < MOST_EXPONENT
        a, unit = (-slope * mean**b, 1.0) if in_x else (-slope, mean)
        ceiling = None if at_an_end else offset
    rss = max(rss, 0.0)
    count = len(xs)
    aicc = _aicc(rss, ys, _parameters(form))
    return Fit(form, a, b, ceiling, offset, count, len(np.unique(xs)), rss, aicc, unit)


def _exponent(xs: Array, ys: Array) -> tuple[float, bool]:
    """Return the exponent with the smallest residual, and whether it is at an end of the grid."""
    left = _left(EXPONENTS, xs, ys)
    best = int(left.argmin())
    if best in (0, len(EXPONENTS) - 1):
        return float(EXPONENTS[best]), True
    around = np.log(EXPONENTS[[best - 1, best + 1]])
    found = optimize.minimize_scalar(
        lambda log_b: float(_left(np.exp([log_b]), xs, ys)[0]),
        bounds=(float(around[0]), float(around[1])),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return math.exp(float(found.x)), False


def _left(exponents: Array, xs: Array, ys: Array) -> Array:
    """Return the residual sum of squares of the best line over x^-b, for each exponent."""
    powers = xs ** -exponents[:, None]
    powers = powers - powers.mean(axis=1, keepdims=True)
    centred = ys - ys.mean()
    slopes = (powers * centred).sum(axis=1) / (powers**2).sum(axis=1)
    return ((centred - slopes[:, None] * powers) ** 2).sum(axis=1)


def _line(xs: Array, ys: Array) -> tuple[float, float, float]:
    """Return intercept, slope and residual sum of squares of the line through points."""
    centred = xs - xs.mean()
    slope = float((centred * ys).sum() / (centred**2).sum())
    intercept = float(ys.mean() - slope * xs.mean())
    return intercept, slope, float(((ys - intercept - slope * xs) ** 2).sum())


def _aicc(rss: float, ys: Array, parameters: int) -> float:
    """Return AICc with the variance as a parameter; for a perfect fit, rounding errors count as the residual."""
    count, k = len(ys), parameters + 1
    if count <= k + 1:
        return math.inf
    rounding = count * (1e-9 * float(np.ptp(ys))) ** 2
    return count * math.log(max(rss, rounding) / count) + 2 * k + 2 * k * (k + 1) / (count - k - 1)
