"""Fits recover the curves that made the points, and refuse points without a curve."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trm_eval.errors import StatisticsError
from trm_eval.statistics import Variant, band, choose_fit, fit, saturation

WIDTHS = [32.0, 64.0, 128.0, 256.0, 512.0, 1024.0]


def noisy(seed: int) -> tuple[list[float], list[float]]:
    xs = np.repeat(WIDTHS, 3)
    ys = 0.9 - 3 * xs**-0.7 + np.random.default_rng(seed).normal(0, 0.01, len(xs))
    return xs.tolist(), ys.tolist()


@settings(deadline=None)
@given(
    st.floats(0.3, 1.0),
    st.floats(0.05, 0.6),
    st.floats(0.15, 2.5),
    st.sampled_from([1, -1]),
    st.floats(-3, 5),
)
def test_a_power_law_recovers_what_it_was_made_from(
    ceiling: float, rise: float, exponent: float, sign: int, scale: float
) -> None:
    """`rise` is how far the smallest value is below the ceiling; the unit of x, 10^scale, must not matter."""
    xs = np.array(WIDTHS) * 10**scale
    a = sign * rise * xs[0] ** exponent
    found = fit(xs.tolist(), (ceiling - a * xs**-exponent).tolist(), "power law")
    assert found.ceiling == pytest.approx(ceiling, abs=1e-4)
    assert (found.a, found.b) == pytest.approx((a, exponent), rel=2e-3)
    assert found.at(xs) == pytest.approx(ceiling - a * xs**-exponent, abs=1e-6)


@given(st.floats(-1, 1), st.floats(0.01, 0.5), st.floats(-3, 5))
def test_a_line_over_the_logarithm_recovers_what_it_was_made_from(a: float, b: float, scale: float) -> None:
    xs = np.array(WIDTHS) * 10**scale
    found = fit(xs.tolist(), (a + b * np.log10(xs)).tolist(), "log-linear")
    assert (found.a, found.b, found.ceiling) == (pytest.approx(a, abs=1e-9), pytest.approx(b), None)


@pytest.mark.parametrize("first", [1e-17, 1e17])
def test_a_step_over_quantities_of_any_size_is_fitted(first: float) -> None:
    """Numbers of training operations are like these; a parameter in their unit would overflow or vanish."""
    xs = [first * 2**i for i in range(6)]
    ys = [0.1, 0.9, 0.9, 0.9, 0.9, 0.9]
    found = fit(xs, ys, "power law")
    assert found.at(xs) == pytest.approx(ys, abs=1e-3)
    assert f"(x / {found.unit:.4g})^-" in found.text
    assert found.unit > 1 or first < 1


def test_the_curve_that_the_points_follow_is_chosen() -> None:
    xs = np.array(WIDTHS)
    bent = choose_fit(WIDTHS, (0.9 - 3 * xs**-0.8).tolist())
    straight = choose_fit(WIDTHS, (0.1 + 0.2 * np.log10(xs)).tolist())
    assert (bent.form, straight.form) == ("power law", "log-linear")
    assert bent.text == "y = 0.9 - 3 x^-0.8"
    assert straight.text == "y = 0.1 + 0.2 log10(x)"
    chosen = [choose_fit(*noisy(seed)).form for seed in range(20)]
    assert chosen.count("power law") == 20
    spread = np.random.default_rng(0).normal(0, 0.02, (20, len(xs)))
    lines = [choose_fit(WIDTHS, (0.1 + 0.2 * np.log10(xs) + s).tolist()).form for s in spread]
    assert lines.count("log-linear") >= 18


def test_saturation_is_the_first_value_within_a_point_of_the_ceiling() -> None:
    xs = np.array(WIDTHS)
    curve = fit(WIDTHS, (0.9 - 3 * xs**-1.0).tolist(), "power law")
    assert saturation(curve, WIDTHS, point=0.01) == 512.0  # 3 / 0.01 = 300
    assert saturation(curve, WIDTHS, point=0.05) == 64.0
    assert saturation(curve, WIDTHS[:4], point=0.01) is None
    line = fit(WIDTHS, (0.1 + 0.2 * np.log10(xs)).tolist(), "log-linear")
    assert saturation(line, WIDTHS, point=0.01) is None
    falling = fit(WIDTHS, (0.5 + 3 * xs**-1.0).tolist(), "power law")
    assert saturation(falling, WIDTHS, point=0.01) is None


def test_a_band_holds_the_curve_about_as_often_as_it_says() -> None:
    truth = 0.9 - 3 * np.array([32.0, 256.0]) ** -0.7
    held = np.zeros(2)
    for seed in range(25):
        xs, ys = noisy(seed)
        found = band(fit(xs, ys, "power law"), xs, [32, 256], seed=seed, resamples=100)
        held += (found.low <= truth) & (truth <= found.high)
    assert (held >= 19).all(), held  # 95% minus the error from few runs and draws


@pytest.mark.parametrize(
    ("xs", "ys", "form", "message"),
    [
        (
            [1, 2, 3],
            [0.1, 0.2, 0.3],
            "power law",
            "3 values in 3 runs; a power law curve has 3 parameters and needs 4",
        ),
        (
            [0, 1, 2, 3],
            [0.1, 0.2, 0.3, 0],
            "power law",
            "x: has 0; a power law curve is over finite values above 0",
        ),
        ([1, 2, 3, 4], [0.5] * 4, "power law", "y: is 0.5 in all 4 runs; nothing varies"),
        ([1, 2, 3, math.nan], [0.5] * 4, "power law", "x: has nan"),
    ],
)
def test_what_no_curve_is_drawn_through(xs: list, ys: list, form: Variant, message: str) -> None:
    with pytest.raises(StatisticsError, match=message):
        fit(xs, ys, form)


def test_what_there_are_too_few_runs_for() -> None:
    xs, ys = noisy(0)
    with pytest.raises(StatisticsError, match="4 runs: at least 5 are needed to choose"):
        choose_fit(xs[:12:3], ys[:12:3])
    with pytest.raises(StatisticsError, match="values above 0 are needed"):
        band(fit(xs, ys, "power law"), xs, [0], seed=0)
    assert choose_fit(xs[:9], ys[:9]).form == "log-linear"  # three values
