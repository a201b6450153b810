"""Intervals of shares and means, compared with scipy and the SQL macros, and their properties.

Statistics over several seeds, compared with scipy; one seed is refused.
Paired statistics compared with published numbers, and their properties.
"""

from __future__ import annotations

import math
from importlib.resources import files

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from trm_eval.errors import StatisticsError
from trm_eval.statistics import (
    Paired,
    across_seeds,
    difference_across_seeds,
    holm,
    wilson,
    with_tests,
)

COUNTS = st.integers(1, 500_000).flatmap(lambda count: st.tuples(st.integers(0, count), st.just(count)))


@pytest.fixture(scope="module")
def macros() -> duckdb.DuckDBPyConnection:
    text = files("catalogs").joinpath("results.sql").read_text("utf-8")
    connection = duckdb.connect()
    for statement in connection.extract_statements(text):
        if "CREATE MACRO wilson" in statement.query:
            connection.execute(statement)
    return connection


@given(COUNTS)
def test_wilson_is_that_of_scipy_and_of_sql(
    macros: duckdb.DuckDBPyConnection, counts: tuple[int, int]
) -> None:
    right, count = counts
    found = wilson(right, count)
    expected = stats.binomtest(right, count).proportion_ci(method="wilson")
    assert found == (right / count, expected.low, expected.high)
    in_sql = macros.execute(
        "SELECT wilson_low(?, ?), wilson_high(?, ?)", [right, count, right, count]
    ).fetchone()
    assert in_sql == pytest.approx(found[1:], abs=1e-7)
    assert in_sql is not None
    assert right > 0 or in_sql[0] == 0
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize(("right", "count"), [(0, 0), (3, 2), (-1, 2)])
def test_what_is_no_share(right: int, count: int) -> None:
    with pytest.raises(StatisticsError, match=f"{right} right of {count}: no share"):
        wilson(right, count)


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
        ([0, 1], [0.8, math.nan], "exact: has nan"),
    ],
)
def test_what_gives_no_interval(seeds: list[int], values: list, message: str) -> None:
    frame = pl.DataFrame({"seed": seeds, "exact": values}, schema={"seed": pl.Int64, "exact": pl.Float64})
    with pytest.raises(StatisticsError, match=message):
        across_seeds(frame, "exact")
    with pytest.raises(StatisticsError, match="no column 'right'; there are: seed, exact"):
        across_seeds(frame, "right", seed="right")


def test_experiments_that_share_one_seed_or_none() -> None:
    frame = pl.DataFrame({"experiment": ["a", "a", "b"], "seed": [0, 1, 1], "exact": [0.5, 0.6, 0.7]})
    with pytest.raises(StatisticsError, match="a and b share 1 seed: the spread"):
        difference_across_seeds(frame, "exact", of="experiment", a="a", b="b")
    with pytest.raises(StatisticsError, match="no run of 'c' in experiment; there are: a, b"):
        difference_across_seeds(frame, "exact", of="experiment", a="a", b="c")


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


def test_holm_as_worked_out_by_hand() -> None:
    assert holm([]) == []
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


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
