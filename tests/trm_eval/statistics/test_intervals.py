"""Intervals of shares and means, compared with scipy and the SQL macros, and their properties."""

from __future__ import annotations

from importlib.resources import files

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trm_eval.errors import StatisticsError
from trm_eval.statistics import bootstrap_mean, share_intervals, wilson

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


def test_wilson_as_published() -> None:
    """81 of 263: 0.2553 to 0.3662 (Newcombe 1998, table I)."""
    assert wilson(81, 263)[1:] == pytest.approx((0.2553, 0.3662), abs=5e-5)


@pytest.mark.parametrize(("right", "count"), [(0, 0), (3, 2), (-1, 2)])
def test_what_is_no_share(right: int, count: int) -> None:
    with pytest.raises(StatisticsError, match=f"{right} right of {count}: no share"):
        wilson(right, count)


def test_shares_of_strata() -> None:
    frame = pl.DataFrame({"rating": [1, 0, 1, 0, 1], "exact": [True, True, False, True, False]})
    by = share_intervals(frame, "exact", by=["rating"])
    assert by.columns == ["rating", "count", "right", "share", "low", "high"]
    assert by.rows() == [(0, 2, 2, *wilson(2, 2)), (1, 3, 1, *wilson(1, 3))]
    assert share_intervals(frame, "exact").rows() == [(5, 3, *wilson(3, 5))]
    with pytest.raises(StatisticsError, match="no rows"):
        share_intervals(frame.clear(), "exact")
    with pytest.raises(StatisticsError, match="rating: true or false is needed, got Int64"):
        share_intervals(frame, "rating")
    with pytest.raises(StatisticsError, match="exact: 1 of 2 rows have no value"):
        share_intervals(pl.DataFrame({"exact": [True, None]}), "exact")


def test_a_bootstrap_of_independent_rows_is_near_the_exact_interval() -> None:
    frame = pl.DataFrame({"exact": [True] * 700 + [False] * 300})
    found = bootstrap_mean(frame, "exact", seed=1)
    assert found.value == 0.7
    assert found == pytest.approx(wilson(700, 1000), abs=0.003)
    assert bootstrap_mean(frame, "exact", seed=1) == found
    few = [bootstrap_mean(frame, "exact", seed=seed, resamples=50) for seed in (1, 2)]
    assert few[0] != few[1]


def test_augmentations_of_one_puzzle_do_not_count_as_puzzles() -> None:
    """100 puzzles with 8 augmentations each that fail together: the interval is that of 100 rows, not of 800."""
    owners = np.repeat(np.arange(100), 8)
    frame = pl.DataFrame({"group_index": owners, "exact": owners < 60})
    grouped = bootstrap_mean(frame, "exact", seed=0, group="group_index")
    assert grouped == pytest.approx(wilson(60, 100), abs=0.015)
    alone = bootstrap_mean(frame, "exact", seed=0)
    assert alone.high - alone.low < 0.5 * (grouped.high - grouped.low)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.integers(0, 5))
def test_a_bootstrap_lies_within_its_values(values: list[int], seed: int) -> None:
    frame = pl.DataFrame({"wrong_cells": values})
    if len(set(values)) < 2:
        with pytest.raises(StatisticsError, match=r"at least 2 are needed|in every group of rows"):
            bootstrap_mean(frame, "wrong_cells", seed=seed)
        return
    found = bootstrap_mean(frame, "wrong_cells", seed=seed, resamples=200)
    assert min(values) <= found.low <= found.high <= max(values)
    assert found.value == pytest.approx(np.mean(values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, float("nan")], "wrong: has nan"),
        ([1.0, None], "wrong: 1 of 2 rows have no value"),
        (["a", "b"], "wrong: has no numbers but String"),
    ],
)
def test_what_is_no_number(values: list, message: str) -> None:
    with pytest.raises(StatisticsError, match=message):
        bootstrap_mean(pl.DataFrame({"wrong": values}), "wrong", seed=0)
    with pytest.raises(StatisticsError, match="no column 'right'; there are: wrong"):
        bootstrap_mean(pl.DataFrame({"wrong": values}), "right", seed=0)
