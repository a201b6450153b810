"""Statistics over several seeds, compared with scipy; one seed is refused."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trm_eval.errors import StatisticsError
from trm_eval.statistics import across_seeds, difference_across_seeds

SHARES = st.lists(st.integers(0, 1000), min_size=2, max_size=6).filter(lambda values: len(set(values)) > 1)


@given(SHARES)
def test_the_interval_is_that_of_students_t(thousandths: list[int]) -> None:
    values = [value / 1000 for value in thousandths]
    found = across_seeds(pl.DataFrame({"seed": range(len(values)), "exact": values}), "exact")
    expected = stats.ttest_1samp(values, 0)
    assert (found.count, found.mean) == (len(values), pytest.approx(sum(values) / len(values)))
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert found.p_value == pytest.approx(expected.pvalue)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=2, max_size=5))
def test_a_difference_is_the_paired_test_of_the_shared_seeds(pairs: list[tuple[int, int]]) -> None:
    a, b = ([pair[side] for pair in pairs] for side in (0, 1))
    seeds = list(range(len(pairs)))
    frame = pl.DataFrame(
        {
            "experiment": ["b"] * len(b) + ["a"] * len(a) + ["a", "c"],
            "seed": seeds[::-1] + seeds + [99, 0],
            "right": b[::-1] + a + [500, 1],
        }
    )
    if len({one - other for one, other in pairs}) == 1:
        with pytest.raises(StatisticsError, match="are they one run"):
            difference_across_seeds(frame, "right", of="experiment", a="a", b="b")
        return
    found = difference_across_seeds(frame, "right", of="experiment", a="a", b="b")
    expected = stats.ttest_rel(b, a)
    assert found.count == len(pairs)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert found.p_value == pytest.approx(expected.pvalue)


@given(st.lists(st.integers(0, 500), min_size=2, max_size=4), st.integers(0, 500))
def test_equal_differences_of_shares_are_no_spread_however_they_are_rounded(
    thousandths: list[int], more: int
) -> None:
    frame = pl.DataFrame(
        {
            "experiment": ["a"] * len(thousandths) + ["b"] * len(thousandths),
            "seed": 2 * list(range(len(thousandths))),
            "exact": [value / 1000 for value in thousandths]
            + [(value + more) / 1000 for value in thousandths],
        }
    )
    with pytest.raises(StatisticsError, match="are they one run"):
        difference_across_seeds(frame, "exact", of="experiment", a="a", b="b")


@pytest.mark.parametrize("level", [95.0, 0.0, 1.0, -0.5])
def test_a_level_is_between_0_and_1(level: float) -> None:
    with pytest.raises(StatisticsError, match="between 0 and 1"):
        across_seeds(pl.DataFrame({"seed": [0, 1], "exact": [0.1, 0.2]}), "exact", level=level)


@pytest.mark.parametrize(
    ("seeds", "values", "message"),
    [
        ([], [], "no seed: how much another would differ cannot be known"),
        (
            [0],
            [0.8],
            "1 seed: how much another would differ cannot be known, so that no interval can be given",
        ),
        ([0, 0], [0.8, 0.9], "seed 0 of .*: got 2 rows"),
        ([0, 1], [0.8, 0.8], "is 0.8 for each of 2 seeds"),
        ([0, 1], [0.8, None], "exact: 1 of 2 rows have no value"),
    ],
)
def test_what_gives_no_interval(seeds: list[int], values: list, message: str) -> None:
    frame = pl.DataFrame({"seed": seeds, "exact": values}, schema={"seed": pl.Int64, "exact": pl.Float64})
    with pytest.raises(StatisticsError, match=message):
        across_seeds(frame, "exact")


def test_experiments_that_share_one_seed_or_none() -> None:
    frame = pl.DataFrame({"experiment": ["a", "a", "b"], "seed": [0, 1, 1], "exact": [0.5, 0.6, 0.7]})
    with pytest.raises(StatisticsError, match="a and b share 1 seed: the spread"):
        difference_across_seeds(frame, "exact", of="experiment", a="a", b="b")
    with pytest.raises(StatisticsError, match="no run of 'c' in experiment; there are: a, b"):
        difference_across_seeds(frame, "exact", of="experiment", a="a", b="c")
