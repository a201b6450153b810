"""Run a user's SQL over the catalog, read-only.

A statement runs only if every operator of DuckDB's plan is read-only (`reading_statement`). The connection can access
no files except the index, and no network. DuckDB would let SQL write to the files of an attached database, so the check
of the plan protects them. DuckDB spills nothing to disk, and its settings are locked.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
from duckdb.sqltypes import DuckDBPyType

from trm_data.catalog.schema import quote_identifier, quote_literal
from trm_data.catalog.write import catalog_index
from trm_data.errors import Note, QueryError
from trm_data.show.render import QueryResult
from trm_data.storage.root import Layout, Root, resolve_root

if TYPE_CHECKING:
    import polars
    import pyarrow as pa


QUERIES = "SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE, PIVOT"

RUN_TEXTS = ("query", "query_table", "json_execute_serialized_sql")
"""Table functions that take a query or the names of tables as text. A query must name the tables that it reads: only
those are opened."""

# fmt: off
READING = frozenset((
    "ARROW_SCAN", "ASOF_JOIN", "BLOCKING_SAMPLE", "BLOCKWISE_NL_JOIN", "CHUNK_SCAN", "COLUMN_DATA_SCAN",
    "CROSS_PRODUCT", "CTE", "CTE_SCAN", "DELIM_SCAN", "DUMMY_SCAN", "EMPTY_RESULT", "EXPRESSION_SCAN",
    "FILTER", "HASH_GROUP_BY", "HASH_JOIN", "IE_JOIN", "INOUT_FUNCTION", "LEFT_DELIM_JOIN", "LIMIT",
    "LIMITED_DISTINCT", "LIMIT_PERCENT", "NESTED_LOOP_JOIN", "ORDER_BY", "PARTITIONED_AGGREGATE",
    "PERFECT_HASH_GROUP_BY", "PIECEWISE_MERGE_JOIN", "PIVOT", "POSITIONAL_JOIN", "POSITIONAL_SCAN",
    "PROJECTION", "REC_CTE", "REC_CTE_SCAN", "REC_KEY_CTE", "REC_REC_CTE_SCAN", "RESERVOIR_SAMPLE",
    "RIGHT_DELIM_JOIN", "SEQ_SCAN", "STREAMING_LIMIT", "STREAMING_SAMPLE", "STREAMING_WINDOW", "TABLE_SCAN",
    "TOP_N", "UNGROUPED_AGGREGATE", "UNION", "UNNEST", "WINDOW", "DUCKDB_COLUMNS", "DUCKDB_CONSTRAINTS",
    "DUCKDB_DATABASES", "DUCKDB_DEPENDENCIES", "DUCKDB_EXTENSIONS", "DUCKDB_FUNCTIONS", "DUCKDB_INDEXES",
    "DUCKDB_KEYWORDS", "DUCKDB_MEMORY", "DUCKDB_OPTIMIZERS", "DUCKDB_SCHEMAS", "DUCKDB_SEQUENCES",
    "DUCKDB_SETTINGS", "DUCKDB_TABLES", "DUCKDB_TYPES", "DUCKDB_VARIABLES", "DUCKDB_VIEWS", "GENERATE_SERIES",
    "JSON_EACH", "JSON_TREE", "PARQUET_FILE_METADATA", "PARQUET_METADATA", "PARQUET_SCAN", "PARQUET_SCHEMA",
    "PRAGMA_SHOW", "PRAGMA_TABLE_INFO", "PRAGMA_VERSION", "PYTHON_ARROW_SCAN", "RANGE", "READ_PARQUET",
    "REPEAT", "REPEAT_ROW", "SUMMARY",
))
# fmt: on
"""Operators and table functions that only read."""


PLAN = "EXPLAIN (FORMAT json) "
"""Put before a query, gives its plan without running it."""


def reading_statement(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object] = ()
) -> duckdb.Statement:
    """Return the single statement of a text if it is read-only; begin the transaction in which it must run.

    In one transaction now() and similar functions, on which a plan can depend, have the same value at planning and at
    execution.
    """
    statement = _checked_statement(connection, sql)
    connection.begin()
    if others := sorted(operators_of(_plan_of(connection, statement, parameters)) - READING):
        raise QueryError(f"queries only read: {', '.join(others)} is refused (expected {QUERIES})")
    return statement


def _checked_statement(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """Return the single query of a text."""
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise QueryError(f"the query is not UTF-8 text: {sql!r}") from error
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise QueryError(f"expected one SQL statement, got {len(statements)}")
    (statement,) = statements
    try:
        kind = statement.type.name
    except ValueError:  # a kind that DuckDB's client does not know
        kind = " ".join(statement.query.split()[:2]).upper()
    if kind == "MULTI":
        raise QueryError(
            "a PIVOT must list its values, as PIVOT runs ON split IN ('train', 'test') USING count(*)"
        )
    if kind != "SELECT":
        raise QueryError(f"{kind} statements are refused (expected {QUERIES})")
    _check_functions(connection, statement.query)
    return statement


def _plan_of(
    connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement, parameters: Sequence[object]
) -> str:
    """Return the JSON plan of a query without running it."""
    (row,) = connection.execute(f"{PLAN}{statement.query}", list(parameters)).fetchall()
    return row[1]


def tables_read(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object] = ()
) -> set[str]:
    """Return the names of the tables that a query reads, also through views.

    The optimizer of the connection must be off (`PRAGMA disable_optimizer`): it removes empty tables from plans.
    """
    with _errors_of():
        statement = _checked_statement(connection, sql)
        plan = _plan_of(connection, statement, parameters)
    tables = (node["extra_info"].get("Table") for node in _nodes(json.loads(plan)) if "extra_info" in node)
    return {str(table).rpartition(".")[2].strip('"') for table in tables if table}


def _as_typed(message: str) -> str:
    """Return a message of DuckDB about the query as the user typed it, not about the plan that was asked for first."""
    before, found, after = message.partition(f"LINE 1: {PLAN}")
    if not found:
        return message
    line, _, caret = after.partition("\n")
    return f"{before}LINE 1: {line}\n{caret.removeprefix(' ' * len(PLAN))}"


def operators_of(plan: str) -> set[str]:
    """Return the names of the operators and table functions in a JSON plan."""
    return {
        str(node["name"]).strip().upper()
        for node in _nodes(json.loads(plan))
        if "name" in node and "children" in node
    }


def _check_functions(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    """Raise QueryError for the functions of `RUN_TEXTS`, anywhere in DuckDB's parse tree."""
    row = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchone()
    tree = json.loads(row[0]) if row else {"error_message": "no answer"}
    if tree.get("error", True):
        raise QueryError(f"not a query (expected {QUERIES}): {tree.get('error_message')}")
    called = {str(node.get("function_name")).lower() for node in _nodes(tree)}
    if runs := sorted(called.intersection(RUN_TEXTS)):
        raise QueryError(f"{runs[0]}() is refused. Write the query itself, or the table after FROM")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a JSON value, at any depth."""
    left = [tree]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield value
            left += value.values()
        elif isinstance(value, list):
            left += value


def query_catalog(layout: Layout, sql: str) -> QueryResult:
    """Return the result of a query over the dataset catalog; its `problems` name the datasets left out.

    Args:
        layout: The root.
        sql: One SQL query.

    Raises:
        QueryError: There is no catalog, or the SQL is not a query.
    """
    with _open_catalog(layout) as (connection, problems):
        return replace(run_locked(connection, sql), problems=tuple(problems))


def sql(query: str, root: Root | None = None, *, skip_damaged: bool = False) -> polars.DataFrame:
    """Return the result of a query over the dataset catalog, as a data frame.

    Args:
        query: One SQL query.
        root: Root folder, `gs://bucket/prefix`, a layout or a store; default: `$TRM_ROOT`, else `./trm`.
        skip_damaged: Leave out damaged datasets instead of raising an error.

    Raises:
        QueryError: There is no catalog, the SQL is not a query, or a dataset is damaged.
    """
    if not isinstance(query, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise QueryError(f"sql: one query as text, got {type(query).__name__}")
    with _open_catalog(resolve_root(root)) as (connection, problems):
        damaged = [problem for problem in problems if not isinstance(problem, Note)]
        if damaged and not skip_damaged:
            raise QueryError("; ".join(damaged) + " (skip_damaged=True skips them)")
        for note in problems:
            if isinstance(note, Note):
                warnings.warn(f"left out: {note}", stacklevel=2)
        return frame_locked(connection, query)


@contextmanager
def _open_catalog(layout: Layout) -> Generator[tuple[duckdb.DuckDBPyConnection, list[str]], None, None]:
    with closing(duckdb.connect()) as connection:
        problems = attach_catalog(connection, layout)
        connection.execute("USE catalog")
        # It would appear in the output of a `python -c`.
        connection.execute("SET enable_progress_bar = false")
        yield connection, problems


def attach_catalog(connection: duckdb.DuckDBPyConnection, layout: Layout) -> list[str]:
    """Attach the index as `catalog`; return a line for each dataset that is not in the index."""
    index, problems = catalog_index(layout)
    connection.execute(f"ATTACH {quote_literal(str(index))} AS catalog (READ_ONLY)")
    return problems


def run_locked(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    parameters: Sequence[object] = (),
    *,
    as_table: bool = False,
) -> QueryResult:
    """Restrict a connection to its tables, then run a user's SQL on it.

    Args:
        connection: Connection with the tables.
        sql: One query.
        parameters: Values for `?` in it.
        as_table: Return an Arrow table instead of rows.
    """
    lock(connection)
    with _errors_of():
        table = _answer(
            connection.sql(reading_statement(connection, sql, parameters), params=list(parameters))
        )
        if as_table:
            return QueryResult(table.column_names, [], table=table)
        columns = [column.to_pylist(maps_as_pydicts="strict") for column in table.columns]
        return QueryResult(table.column_names, list(zip(*columns, strict=True)))


@contextmanager
def _errors_of() -> Generator[None, None, None]:
    """Raise errors of DuckDB as QueryError."""
    try:
        yield
    except duckdb.Error as error:
        raise QueryError(_as_typed(str(error))) from error


def frame_locked(connection: duckdb.DuckDBPyConnection, sql: str) -> polars.DataFrame:
    """Like `run_locked`, but return a data frame over DuckDB's Arrow buffers."""
    import polars

    lock(connection)
    with _errors_of():
        table = _answer(connection.sql(reading_statement(connection, sql)))
    if twice := sorted({name for name in table.column_names if table.column_names.count(name) > 1}):
        raise QueryError(f"two columns have the name {twice[0]!r}; rename one with AS")
    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)
    return frame


SCALARS = frozenset((
    "null", "boolean", "tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger", "ubigint",
    "float", "double", "decimal", "varchar", "uuid", "enum", "blob",
))  # fmt: skip
TIMES = frozenset(("date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp with time zone"))
"""Types whose values are the same in text, Parquet and Python; times only outside of lists, and in years 1 to 9999."""


def _answer(relation: duckdb.DuckDBPyRelation) -> pa.Table:
    """Return the rows of a query if every column has the same values in all forms of output.

    128-bit integers, DuckDB's type of sums and counts, become 64-bit integers.

    Raises:
        QueryError: Some form of output cannot hold a column.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    types = [(kind.id, kind) for kind in relation.types]
    for name, (kind, whole) in zip(relation.columns, types, strict=True):
        if not (kind in TIMES or kind == "hugeint" or _is_portable(whole)):
            raise _not_portable(name, f"the type {whole}")
    table = relation.to_arrow_table()
    for position, (name, (kind, _)) in enumerate(zip(table.column_names, types, strict=True)):
        column = table.column(position)
        try:
            if kind == "hugeint":
                table = table.set_column(position, name, column.cast(pa.int64()))
            elif kind in TIMES:
                pc.call_function("min_max", [column]).as_py()
        except (pa.ArrowInvalid, OverflowError, ValueError) as error:
            what = (
                "an integer of more than 64 bits"
                if kind == "hugeint"
                else "a time outside the years 1 to 9999"
            )
            raise _not_portable(name, what) from error
    return table


def _is_portable(kind: DuckDBPyType) -> bool:
    """Return whether values of a type, which may be nested, are the same in all forms of output."""
    if kind.id in SCALARS:
        return True
    if kind.id not in ("list", "array", "struct", "map"):
        return False
    parts = [part for part in dict(kind.children).values() if isinstance(part, DuckDBPyType)]
    if kind.id == "map" and parts[0].id != "varchar":  # keys of JSON are text
        return False
    return all(map(_is_portable, parts))


def _not_portable(name: str, what: str) -> QueryError:
    cast = f"{quote_identifier(name)}::VARCHAR"
    return QueryError(f"column {name}: {what} is not the same in every form of output. Cast it: {cast}")


def lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Restrict a connection to its tables and allowed files."""
    connection.execute("SET temp_directory = ''")
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
