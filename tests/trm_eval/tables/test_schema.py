"""Columns and their comments."""

from __future__ import annotations

import duckdb
import pytest

from trm_eval.tables.schema import (
    LEGACY,
    PARTITION_COLUMNS,
    RUN_STATUS,
    TABLES,
    VIEW_COMMENTS,
    column_comments,
)


@pytest.mark.parametrize("table", list(TABLES))
def test_every_column_of_every_table_has_a_comment(table: str) -> None:
    commented = {column: text for (of, column), text in column_comments().items() if of == table}
    assert all(commented.values())
    assert {*TABLES[table].names, *PARTITION_COLUMNS} <= set(commented)


@pytest.mark.parametrize("table", list(TABLES))
def test_no_column_needs_quotes(table: str) -> None:
    connection = duckdb.connect()
    reserved = connection.execute(
        "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved'"
    ).fetchall()
    assert not {name for (name,) in reserved} & {*TABLES[table].names, *PARTITION_COLUMNS, *RUN_STATUS.names}


def test_names_of_rates_are_no_names_of_stored_sums() -> None:
    stored = {name for schema in TABLES.values() for name in schema.names}
    assert not stored & set(VIEW_COMMENTS)


@pytest.mark.parametrize("table", list(LEGACY))
def test_old_names_are_not_used_again(table: str) -> None:
    assert not {*LEGACY[table].values()} & set(TABLES[table].names)
