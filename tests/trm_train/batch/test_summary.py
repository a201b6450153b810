"""Intervals of shares, by hand and at their ends."""

from __future__ import annotations

import pytest
from scipy.stats import binomtest

from trm_train.batch.summary import wilson


@pytest.mark.parametrize(("right", "count"), [(0, 50), (1, 3), (820, 1000), (1000, 1000)])
def test_the_interval_is_that_of_wilson(right: int, count: int) -> None:
    wanted = binomtest(right, count).proportion_ci(0.95, method="wilson")
    assert wilson(right, count) == pytest.approx((wanted.low, wanted.high), abs=1e-6)
