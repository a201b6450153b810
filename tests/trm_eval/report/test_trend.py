"""Curves through accuracies: recovered if there is one, otherwise refused with a reason."""

from __future__ import annotations

import numpy as np
import pytest

from trm_eval.report.group import trend_of

WIDTHS = [32.0, 48.0, 64.0, 96.0, 128.0, 192.0]


def test_a_ceiling_is_found_and_where_it_is_reached() -> None:
    exact = [0.95 - 3.0 / width for width in WIDTHS]
    trend = trend_of([*WIDTHS, 1024.0], [*exact, 0.95 - 3.0 / 1024])
    assert trend.fit is not None
    assert trend.fit.ceiling == pytest.approx(95, abs=0.1)
    assert trend.saturated == 1024
    assert "its ceiling is 95.0%, within a point of it from 1,024 on." in trend.says("width (features)")
    assert trend.says("width (features)").startswith(
        "fitted over width (features) (x, exact % is y): y = 95 - 300 x^-1"
    )


def test_a_line_over_doublings_has_no_ceiling() -> None:
    rng = np.random.default_rng(0)
    exact = [0.1 + 0.1 * np.log2(width / 32) + rng.normal(0, 0.004) for width in WIDTHS]
    trend = trend_of(WIDTHS, exact)
    assert trend.saturated is None
    assert trend.band is not None
    assert trend.fit is not None
    inside = (trend.band.low <= trend.fit.at(trend.band.x)) & (trend.fit.at(trend.band.x) <= trend.band.high)
    assert inside.all()
    if trend.fit.offset is None:
        assert "+10." in trend.says("width")


def test_a_curve_that_no_accuracy_can_follow_is_called_so() -> None:
    said = trend_of(WIDTHS, [0.30, 0.52, 0.66, 0.90, 0.98, 0.99]).says("width")
    assert "it passes 100% from " in said
    flat = trend_of(WIDTHS, [0.5, 0.501, 0.499, 0.5, 0.501, 0.5001])
    assert "less than 0.1 points either way for each doubling" in flat.says("width")
    assert "passes" not in flat.says("width")
