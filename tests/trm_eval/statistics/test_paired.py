"""Paired statistics compared with published numbers, and their properties."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from trm_eval.errors import StatisticsError
from trm_eval.statistics import Paired, holm, pair, with_tests


def test_mcnemar_is_exact() -> None:
    assert Paired(100, 0, 0).p_value == 1.0
    assert Paired(100, 0, 5).p_value == pytest.approx(2 / 2**5)
    assert Paired(100, 3, 9).p_value == pytest.approx(2 * sum(stats.binom.pmf(k, 12, 0.5) for k in range(4)))


def score(paired: Paired, difference: float) -> float:
    """Return the score statistic, with the nuisance parameter found by search instead of the formula."""
    n, b, c = paired.count, paired.only_b, paired.only_a

    def unlikely(share: float) -> float:
        flips = [(b, share + difference), (c, share), (n - b - c, 1 - 2 * share - difference)]
        return -sum(times * math.log(max(chance, 1e-300)) for times, chance in flips if times)

    low, high = max(0.0, -difference), (1 - difference) / 2
    share = optimize.minimize_scalar(
        unlikely, bounds=(low, high), method="bounded", options={"xatol": 1e-13}
    ).x
    return (b - c - n * difference) / math.sqrt(n * (2 * share + difference * (1 - difference)))


@pytest.mark.parametrize(
    ("count", "only_a", "only_b"), [(200, 10, 40), (50, 2, 12), (1000, 9, 54), (30, 7, 3)]
)
def test_an_interval_ends_where_the_score_test_rejects(count: int, only_a: int, only_b: int) -> None:
    paired = Paired(count, only_a, only_b)
    assert paired.difference == (only_b - only_a) / count
    low, high = paired.interval
    assert score(paired, low) == pytest.approx(1.959964, abs=1e-4)
    assert score(paired, high) == pytest.approx(-1.959964, abs=1e-4)


def test_an_interval_without_flips_is_that_of_a_share_of_none() -> None:
    z = 1.959964
    for count in (1, 10, 1000):
        most = z**2 / (count + z**2)
        assert Paired(count, 0, 0).interval == pytest.approx((-most, most), abs=1e-6)


@pytest.mark.parametrize(
    ("count", "only_a", "only_b"),
    [(1000, 0.002, 0.05), (1000, 0.001, 0.01), (49, 0.02, 0.16), (200, 0.05, 0.05)],
)
def test_an_interval_holds_the_difference_as_often_as_it_says(
    count: int, only_a: float, only_b: float
) -> None:
    """Sum over all outcomes, weighted by probability; rare ones are left out, which can only lower the sum."""
    held = 0.0
    for b in range(count + 1):
        of_b = stats.binom.pmf(b, count, only_b)
        for a in range(count - b + 1) if of_b > 1e-5 else ():
            chance = of_b * stats.binom.pmf(a, count - b, only_a / (1 - only_b))
            if chance > 1e-7:
                low, high = Paired(count, a, b).interval
                held += chance * (low <= only_b - only_a <= high)
    assert held == pytest.approx(0.95, abs=0.01)


@given(st.integers(0, 60), st.integers(0, 60))
def test_an_interval_agrees_with_its_test_and_the_exact_one_is_never_bolder(only_a: int, only_b: int) -> None:
    paired = Paired(200, only_a, only_b)
    low, high = paired.interval
    flips = only_a + only_b
    far = flips > 0 and abs(only_b - only_a) / math.sqrt(flips) > 1.959964
    assert (low > 0 or high < 0) == far
    assert paired.p_value >= 0.05 or far


@given(st.integers(1, 500), st.data())
def test_turning_a_pair_around_turns_its_sign(count: int, data: st.DataObject) -> None:
    only_a = data.draw(st.integers(0, count))
    only_b = data.draw(st.integers(0, count - only_a))
    one, other = Paired(count, only_a, only_b), Paired(count, only_b, only_a)
    assert one.difference == -other.difference
    assert one.p_value == pytest.approx(other.p_value)
    assert one.interval == pytest.approx(tuple(-end for end in reversed(other.interval)), abs=1e-9)
    assert -1 <= one.interval[0] <= one.difference <= one.interval[1] <= 1


def test_holm_as_worked_out_by_hand() -> None:
    assert holm([]) == []
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_corrects_upwards_and_keeps_the_order(p_values: list[float]) -> None:
    corrected = holm(p_values)
    assert all(p <= c <= 1.0 for p, c in zip(p_values, corrected, strict=True))
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    assert [corrected[i] for i in order] == sorted(corrected)


def test_a_frame_of_two_runs_is_a_pair() -> None:
    frame = pl.DataFrame({"a": [True, True, False, True], "b": [True, False, True, False]})
    assert pair(frame, "a", "b") == Paired(4, 2, 1)
    with pytest.raises(StatisticsError, match="no puzzle was asked of both"):
        pair(frame.clear(), "a", "b")
    with pytest.raises(StatisticsError, match="b: 1 of 2 rows have no value"):
        pair(pl.DataFrame({"a": [True, True], "b": [True, None]}), "a", "b")


def test_pairs_of_a_query_get_their_tests() -> None:
    frame = pl.DataFrame({"puzzles": [200, 100, 50], "only_a": [10, 3, 0], "only_b": [40, 9, 0]})
    tested = with_tests(frame)
    pairs = [Paired(200, 10, 40), Paired(100, 3, 9), Paired(50, 0, 0)]
    assert tested["p_value"].to_list() == [one.p_value for one in pairs]
    assert tested["p_holm"].to_list() == holm([one.p_value for one in pairs])
    assert tested.select("difference", "low", "high").rows() == [
        (one.difference, *one.interval) for one in pairs
    ]
    assert with_tests(frame.clear()).columns == tested.columns
    for bad in ({"only_a": -1}, {"puzzles": 0}, {"only_b": 199}):
        with pytest.raises(StatisticsError, match="cannot be"):
            with_tests(frame[:1].with_columns(**{name: pl.lit(value) for name, value in bad.items()}))
