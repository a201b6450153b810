"""Intervals of shares and means, compared with scipy and the SQL macros, and their properties.

Statistics over several seeds, compared with scipy; one seed is refused.
Paired statistics compared with published numbers, and their properties.
"""

from __future__ import annotations

import math
from importlib.resources import files

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from trm_eval.errors import StatisticsError
from trm_eval.statistics import Paired, across_seeds, holm

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
def test_wilson_of_sql_is_that_of_scipy(macros: duckdb.DuckDBPyConnection, counts: tuple[int, int]) -> None:
    right, count = counts
    expected = stats.binomtest(right, count).proportion_ci(method="wilson")
    low_and_high = "SELECT wilson_low(?, ?), wilson_high(?, ?)"
    found = macros.execute(low_and_high, [right, count, right, count]).fetchone()
    assert found == pytest.approx((expected.low, expected.high), abs=1e-7)
    assert found is not None
    assert right > 0 or found[0] == 0


SHARES = st.lists(st.integers(0, 1000), min_size=2, max_size=6).filter(lambda values: len(set(values)) > 1)


@given(SHARES)
def test_the_interval_is_that_of_students_t(thousandths: list[int]) -> None:
    values = [value / 1000 for value in thousandths]
    found = across_seeds(values)
    expected = stats.ttest_1samp(values, 0)
    assert (found.count, found.mean) == (len(values), pytest.approx(sum(values) / len(values)))
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert found.p_value == pytest.approx(expected.pvalue)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "0 seeds: the spread over seeds cannot be known"),
        ([0.8], "1 seed: the spread over seeds cannot be known; train further seeds"),
        ([0.8, 0.8], "0.8 for each of 2 seeds: .*are they one run"),
        ([0.3 - 0.1, 0.5 - 0.3], "0.2 for each of 2 seeds"),
    ],
)
def test_what_gives_no_interval(values: list[float], message: str) -> None:
    with pytest.raises(StatisticsError, match=message):
        across_seeds(values)


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
