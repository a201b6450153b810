"""Runs a user's SQL over the catalog, and can do nothing else.

The connection is read-only, has no access to files or the network, and its settings are locked.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trm_data.catalog.write import ensure_catalog
from trm_data.errors import QueryError
from trm_data.storage.root import Layout, Root, resolve_root

if TYPE_CHECKING:
    import duckdb
    import polars


@dataclass(frozen=True)
class QueryResult:
    """Columns by name and rows of plain Python values."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    problems: tuple[str, ...] = ()
    """A line for each thing that could not be read and was left out."""


def query_catalog(layout: Layout, sql: str) -> QueryResult:
    """The result of a query over the dataset catalog.

    Raises:
        QueryError: There is no catalog, or the SQL cannot be run read-only.
    """
    import duckdb

    path = ensure_catalog(layout)
    with closing(duckdb.connect(str(path), read_only=True)) as connection:
        return run_locked(connection, sql)


def sql(query: str, root: Root | None = None) -> polars.DataFrame:
    """The result of a query over the dataset catalog, as a data frame.

    Args:
        query: One SQL statement.
        root: Folder of everything, `gs://bucket/prefix`, a layout or a store; else `$TRM_ROOT`, else `./trm`.

    Raises:
        QueryError: There is no catalog, or the SQL cannot be run read-only.
    """
    import duckdb

    path = ensure_catalog(resolve_root(root))
    with closing(duckdb.connect(str(path), read_only=True)) as connection:
        return frame_locked(connection, query)


def run_locked(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object] = ()
) -> QueryResult:
    """Take away a connection's access to anything outside its tables, then run a user's SQL on it.

    Raises:
        QueryError: The SQL cannot be run.
    """
    import duckdb

    try:
        result = _executed(connection, sql, parameters)
        rows = result.fetchall()
    except duckdb.Error as error:
        raise QueryError(str(error)) from error
    return QueryResult([column[0] for column in result.description or []], rows)


def frame_locked(connection: duckdb.DuckDBPyConnection, sql: str) -> polars.DataFrame:
    """As `run_locked`; the result is a data frame over DuckDB's Arrow buffers.

    Raises:
        QueryError: The SQL cannot be run.
    """
    import duckdb
    import polars

    try:
        table = _executed(connection, sql, ()).to_arrow_table()
    except duckdb.Error as error:
        raise QueryError(str(error)) from error
    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)
    return frame


def _executed(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object]
) -> duckdb.DuckDBPyConnection:
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise QueryError(f"expected one SQL statement, got {len(statements)}")
    return connection.execute(statements[0], list(parameters))
