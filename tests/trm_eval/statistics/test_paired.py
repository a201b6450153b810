"""Statistics against numbers worked out elsewhere, and against what must hold of them."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trm_eval.errors import StatisticsError
from trm_eval.statistics import Paired, holm, pair, with_tests


def test_mcnemar_is_exact() -> None:
    assert Paired(100, 0, 0).p_value == 1.0
    assert Paired(100, 0, 5).p_value == pytest.approx(2 / 2**5)
    assert Paired(100, 3, 9).p_value == pytest.approx(2 * sum(stats.binom.pmf(k, 12, 0.5) for k in range(4)))


def test_a_difference_of_pairs_and_its_interval() -> None:
    """40 of 50 flips among 200; the exact interval of 40 of 50 is 0.6628 to 0.8997 (published tables)."""
    paired = Paired(200, 10, 40)
    assert paired.difference == 0.15
    assert paired.interval == pytest.approx(((2 * 0.6628 - 1) / 4, (2 * 0.8997 - 1) / 4), abs=1e-4)
    assert Paired(100, 0, 0).interval == pytest.approx((-0.0362, 0.0362), abs=1e-4)


@given(st.integers(0, 60), st.integers(0, 60))
def test_an_interval_and_its_test_agree(only_a: int, only_b: int) -> None:
    paired = Paired(200, only_a, only_b)
    low, high = paired.interval
    assert (low > 0 or high < 0) == (paired.p_value < 0.05)


@given(st.integers(1, 500), st.data())
def test_turning_a_pair_around_turns_its_sign(count: int, data: st.DataObject) -> None:
    only_a = data.draw(st.integers(0, count))
    only_b = data.draw(st.integers(0, count - only_a))
    one, other = Paired(count, only_a, only_b), Paired(count, only_b, only_a)
    assert one.difference == -other.difference
    assert one.p_value == pytest.approx(other.p_value)
    assert one.interval == pytest.approx(tuple(-end for end in reversed(other.interval)))
    assert one.interval[0] <= one.difference <= one.interval[1]


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
