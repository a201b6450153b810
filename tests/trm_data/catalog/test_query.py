"""Results of queries: one value in every form of output, or a refusal that names the cast."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import duckdb
import polars as pl
import pytest

from tests.trm_data.show.test_table import Terminal
from trm_data.catalog.query import frame_locked, run_locked
from trm_data.errors import QueryError
from trm_data.show.render import QueryResult, print_result, result_bytes


def ask(query: str, *, as_table: bool = False) -> QueryResult:
    return run_locked(duckdb.connect(), query, as_table=as_table)


VALUES = {
    "170141183460469231731687303715884105727::HUGEINT - 170141183460469231731687303715884105720::HUGEINT": 7,
    "sum(18446744073709551615::UBIGINT - 18446744073709551610::UBIGINT)": 5,
    "18446744073709551615::UBIGINT": 18446744073709551615,
    "0.5": 0.5,
    "12345678901234.5::DECIMAL(38, 3)": 12345678901234.5,
    "0.1::FLOAT": 0.10000000149011612,
    "[1, 2]::INTEGER[2]": [1, 2],
    "[[1, NULL]]": [[1, None]],
    "{'a': [1.5::DOUBLE]}": {"a": [1.5]},
    "MAP {'a': 1}": {"a": 1},
    "'x'::ENUM('x')": "x",
    "'00000000-0000-0000-0000-00000000000a'::UUID": "00000000-0000-0000-0000-00000000000a",
    "'\x1b[31mred\ttwo\nlines'": "\x1b[31mred\ttwo\nlines",
    "NULL": None,
}


@pytest.mark.parametrize(("sql", "value"), VALUES.items())
def test_a_value_is_the_same_in_every_form(sql: str, value: Any) -> None:
    query = f"SELECT {sql} AS x"
    assert json.loads(result_bytes(ask(query), "json")) == [{"x": value}]
    (_, [cell]) = csv.reader(io.StringIO(result_bytes(ask(query), "csv").decode()))
    numeric = isinstance(value, (int, float))
    assert (type(value)(cell) if numeric else cell) == (
        "" if value is None else value if numeric else str(value)
    )
    parquet = pl.read_parquet(io.BytesIO(result_bytes(ask(query, as_table=True), "parquet")))
    frame = frame_locked(duckdb.connect(), query)
    for read in (parquet["x"].to_list(), frame["x"].to_list()):
        assert ([float(read[0])] if sql.endswith("DECIMAL(38, 3)") else read) == [value]
    if isinstance(value, list):
        assert f" {value}" in result_bytes(ask(query), "table").decode()


def test_bytes_are_hexadecimal_in_text() -> None:
    query = r"SELECT '\x00\xFFa'::BLOB AS x"
    assert json.loads(result_bytes(ask(query), "json")) == [{"x": "00ff61"}]
    for form in ("csv", "table", "markdown"):
        assert "00ff61" in result_bytes(ask(query), form).decode()
    assert frame_locked(duckdb.connect(), query)["x"].to_list() == [b"\x00\xffa"]


@pytest.mark.parametrize(
    "sql",
    [
        "md5_number('x')",
        "170141183460469231731687303715884105727::HUGEINT",
        "INTERVAL 1 MONTH",
        "{'a': INTERVAL 1 MONTH}",
        "TIMETZ '10:00:00+05'",
        "TIMESTAMP_NS '2020-01-01 00:00:00.123456789'",
        "'infinity'::TIMESTAMP",
        "'290000-01-01'::DATE",
        "[TIMESTAMP '2020-01-01']",
        "union_value(k := 1)",
        "{'a': 1}::VARIANT",
    ],
)
def test_a_value_that_some_form_cannot_hold_is_refused_with_the_cast(sql: str) -> None:
    query = f"SELECT {sql} AS a"
    for answer in (
        lambda: ask(query),
        lambda: ask(query, as_table=True),
        lambda: frame_locked(duckdb.connect(), query),
    ):
        with pytest.raises(QueryError, match=r'column a: .*Cast it: "a"::VARCHAR'):
            answer()
    ((cast,),) = ask(f'SELECT "a"::VARCHAR FROM ({query})').rows
    assert isinstance(cast, str)


@pytest.mark.parametrize(
    "sql", ["'nan'::DOUBLE", "[1.5, '-inf'::DOUBLE]", "{'a': 'inf'::FLOAT}", "12345678901234567890.5"]
)
def test_json_refuses_a_number_that_it_lacks(sql: str) -> None:
    found = ask(f"SELECT {sql} AS a")
    with pytest.raises(QueryError, match=r'column a: .*Cast it: "a"::VARCHAR'):
        result_bytes(found, "json")
    assert result_bytes(found, "csv")


def test_text_sends_no_commands_to_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = ask("SELECT '\x1b[31m' AS x")
    print_result(found, "csv")
    assert capsys.readouterr().out == "x\n\x1b[31m\n"
    for form in ("csv", "json", "table", "markdown"):
        terminal = Terminal()
        monkeypatch.setattr("sys.stdout", terminal)
        print_result(found, form)
        assert "\x1b" not in terminal.getvalue()
        assert "1b" in terminal.getvalue()
