"""Analysis of variance: the sums add up, agree with scipy, and are refused if the group is not a factorial."""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trm_eval.errors import StatisticsError
from trm_eval.statistics import anova


def runs(values: object, *sizes: int, replicates: int = 1) -> pl.DataFrame:
    """Return a full factorial of factors a, b, ... with these numbers of levels; replicates vary fastest."""
    rows = [combination for combination in product(*map(range, sizes)) for _ in range(replicates)]
    columns = {name: [row[i] for row in rows] for i, name in enumerate("abcd"[: len(sizes)])}
    return pl.DataFrame({**columns, "exact": np.asarray(values, np.float64)})


VALUES = st.lists(st.integers(0, 1000), min_size=24, max_size=24).filter(lambda values: len(set(values)) > 1)


@given(VALUES)
def test_the_sums_of_squares_add_up(values: list[int]) -> None:
    effects = anova(runs(values, 2, 3, 2, replicates=2), "exact", ["a", "b", "c"])
    total = float(((np.array(values) - np.mean(values)) ** 2).sum())
    assert sum(effect.sum_squares for effect in effects) == pytest.approx(total)
    assert sum(effect.df for effect in effects) == 23
    assert sum(effect.eta_squared for effect in effects) == pytest.approx(1)
    assert effects[-1].name == "residual"
    assert len(effects) == 8
    assert sum(effect.share or 0 for effect in effects) == pytest.approx(
        1 if any(effect.sum_squares > 1e-6 for effect in effects[:-1]) else 0, abs=1e-6
    )


@given(VALUES)
def test_one_factor_is_the_test_of_scipy(values: list[int]) -> None:
    frame = runs(values, 4, replicates=6)
    groups = [frame.filter(pl.col("a") == level)["exact"].to_numpy() for level in range(4)]
    if all(np.ptp(group) == 0 for group in groups):
        return
    expected = stats.f_oneway(*groups)
    effect = anova(frame, "exact", ["a"])[0]
    assert (effect.f, effect.p_value) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))


def test_two_factors_as_worked_out_by_hand() -> None:
    """Cell means 1 3 / 5 11, replicates one above and one below: A 72, B 32, A x B 8, residual 8."""
    found = anova(runs([0, 2, 2, 4, 4, 6, 10, 12], 2, 2, replicates=2), "exact", ["a", "b"])
    assert [(effect.name, effect.df) for effect in found] == [
        ("a", 1),
        ("b", 1),
        ("a x b", 1),
        ("residual", 4),
    ]
    assert [effect.sum_squares for effect in found] == pytest.approx([72, 32, 8, 8])
    assert [effect.f for effect in found[:-1]] == pytest.approx([36, 16, 4])
    assert [effect.share for effect in found] == [*map(pytest.approx, (72 / 112, 32 / 112, 8 / 112)), None]
    assert found[0].eta_squared == pytest.approx(72 / 120)
    assert found[0].p_value == pytest.approx(stats.f.sf(36, 1, 4))


@given(st.lists(st.integers(0, 1000), min_size=4, max_size=4).filter(lambda values: len(set(values)) > 1))
def test_replicates_that_do_not_differ_give_no_test_however_they_are_rounded(thousandths: list[int]) -> None:
    values = [value / 1000 for value in thousandths for _ in range(3)]
    effects = anova(runs(values, 2, 2, replicates=3), "exact", ["a", "b"])
    assert [(effect.f, effect.p_value) for effect in effects] == [(None, None)] * 4
    assert (effects[-1].name, effects[-1].sum_squares) == ("residual", 0)


def test_without_replicates_there_are_shares_and_no_tests() -> None:
    found = anova(runs([1, 3, 5, 11], 2, 2), "exact", ["a", "b"])
    assert [effect.name for effect in found] == ["a", "b", "a x b"]
    assert {(effect.f, effect.p_value) for effect in found} == {(None, None)}
    assert [effect.share for effect in found] == pytest.approx([effect.eta_squared for effect in found])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda frame: frame[1:],
            "no full factorial of a, b: 1 of 4 combinations were not run, the first a 0, b 0",
        ),
        (
            lambda frame: pl.concat([frame, frame[:1]]),
            "no balanced factorial of a, b: combinations have 1 to 2 runs",
        ),
        (lambda frame: frame.with_columns(b=1), "b: does not vary"),
        (
            lambda frame: frame.with_columns(exact=0.5),
            "exact: is 0.5 in all 4 runs; no variation to explain",
        ),
        (lambda frame: frame.drop("b"), "no column 'b'; there are: a, exact"),
    ],
)
def test_what_is_no_full_factorial(change, message: str) -> None:
    with pytest.raises(StatisticsError, match=message):
        anova(change(runs([1.0, 3, 5, 11], 2, 2)), "exact", ["a", "b"])
    with pytest.raises(StatisticsError, match=r"factors \(none\)"):
        anova(runs([1.0, 3, 5, 11], 2, 2), "exact", [])
