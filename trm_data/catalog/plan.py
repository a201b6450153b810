"""Decide from DuckDB's own plan whether a statement is read-only.

A statement runs only if every operator of its plan is in `READING`. Three things are refused before DuckDB plans:
PIVOT without IN, which runs queries during planning; `query()` and similar functions, whose text may change each time
they are planned; and every statement that is not a query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import duckdb

from trm_data.errors import QueryError

QUERIES = "SELECT, FROM, WITH, DESCRIBE, SHOW, SUMMARIZE, PIVOT, EXPLAIN"

RUN_TEXTS = ("query", "json_execute_serialized_sql")
"""Table functions that run a text as a query."""

# fmt: off
READING = frozenset((
    "ARROW_SCAN", "ASOF_JOIN", "BLOCKING_SAMPLE", "BLOCKWISE_NL_JOIN", "CHUNK_SCAN", "COLUMN_DATA_SCAN",
    "CROSS_PRODUCT", "CTE", "CTE_SCAN", "DELIM_SCAN", "DUMMY_SCAN", "EMPTY_RESULT", "EXPRESSION_SCAN",
    "FILTER", "HASH_GROUP_BY", "HASH_JOIN", "IE_JOIN", "INOUT_FUNCTION", "LEFT_DELIM_JOIN", "LIMIT",
    "LIMIT_PERCENT", "NESTED_LOOP_JOIN", "ORDER_BY", "PARTITIONED_AGGREGATE", "PERFECT_HASH_GROUP_BY",
    "PIECEWISE_MERGE_JOIN", "PIVOT", "POSITIONAL_JOIN", "POSITIONAL_SCAN", "PROJECTION", "REC_CTE",
    "REC_CTE_SCAN", "REC_KEY_CTE", "REC_REC_CTE_SCAN", "RESERVOIR_SAMPLE", "RIGHT_DELIM_JOIN", "SEQ_SCAN",
    "STREAMING_LIMIT", "STREAMING_SAMPLE", "STREAMING_WINDOW", "TABLE_SCAN", "TOP_N", "UNGROUPED_AGGREGATE",
    "UNION", "UNNEST", "WINDOW", "DUCKDB_COLUMNS", "DUCKDB_CONSTRAINTS", "DUCKDB_DATABASES",
    "DUCKDB_DEPENDENCIES", "DUCKDB_EXTENSIONS", "DUCKDB_FUNCTIONS", "DUCKDB_INDEXES", "DUCKDB_KEYWORDS",
    "DUCKDB_MEMORY", "DUCKDB_OPTIMIZERS", "DUCKDB_SCHEMAS", "DUCKDB_SEQUENCES", "DUCKDB_SETTINGS",
    "DUCKDB_TABLES", "DUCKDB_TYPES", "DUCKDB_VARIABLES", "DUCKDB_VIEWS", "GENERATE_SERIES", "JSON_EACH",
    "JSON_TREE", "PARQUET_FILE_METADATA", "PARQUET_METADATA", "PARQUET_SCAN", "PARQUET_SCHEMA", "PRAGMA_SHOW",
    "PRAGMA_TABLE_INFO", "PRAGMA_VERSION", "PYTHON_ARROW_SCAN", "RANGE", "READ_PARQUET", "REPEAT",
    "REPEAT_ROW", "SUMMARY",
))
# fmt: on
"""Operators and table functions that only read."""


def reading_statement(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object] = ()
) -> duckdb.Statement:
    """Return the single statement of a text if it is read-only; begin the transaction in which it must run.

    In one transaction now() and similar functions, on which a plan can depend, have the same value at planning and at
    execution.
    """
    statement = _one(connection, sql)
    explain = ""
    if statement.type.name == "EXPLAIN":
        explain, query = _split_explain(statement.query)
        statement = _one(connection, query)
    _check_kind(statement)
    _check_functions(connection, statement.query)
    connection.begin()
    (row,) = connection.execute(f"EXPLAIN (FORMAT json) {statement.query}", list(parameters)).fetchall()
    if others := sorted(operators_of(row[1]) - READING):
        raise QueryError(f"queries only read: {', '.join(others)} is refused (expected {QUERIES})")
    return _one(connection, f"{explain} {statement.query}") if explain else statement


def operators_of(plan: str) -> set[str]:
    """Return the names of the operators and table functions in a JSON plan."""
    return {
        str(node["name"]).strip().upper()
        for node in _nodes(json.loads(plan))
        if "name" in node and "children" in node
    }


def _one(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise QueryError(f"expected one SQL statement, got {len(statements)}")
    return statements[0]


def _check_kind(statement: duckdb.Statement) -> None:
    kind = statement.type.name
    if kind == "MULTI":
        raise QueryError(
            "a PIVOT must list its values, as PIVOT runs ON split IN ('train', 'test') USING count(*)"
        )
    if kind != "SELECT":
        raise QueryError(f"{kind} statements are refused (expected {QUERIES})")


def _check_functions(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    """Raise QueryError for functions that run text as SQL, anywhere in DuckDB's parse tree."""
    row = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchone()
    tree = json.loads(row[0]) if row else {"error_message": "no answer"}
    if tree.get("error", True):
        raise QueryError(f"not a query (expected {QUERIES}): {tree.get('error_message')}")
    called = {str(node.get("function_name")).lower() for node in _nodes(tree)}
    if runs := sorted(called.intersection(RUN_TEXTS)):
        raise QueryError(f"{runs[0]}() is refused: write its text as the query")


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


def _split_explain(sql: str) -> tuple[str, str]:
    """Split EXPLAIN with its options from the explained query, at DuckDB's tokens.

    The statement that runs is joined from the two parts again, so a wrong split cannot run anything unchecked.
    """
    text = sql.encode()
    tokens = [*duckdb.tokenize(sql), (len(text), duckdb.token_type.comment)]
    spans = [(i, j) for (i, kind), (j, _) in pairwise(tokens) if kind != duckdb.token_type.comment]
    before = [text[start:end].decode().strip().upper() for start, end in spans]
    if before[:2] == ["EXPLAIN", "("] and ")" in before:
        count = before.index(")") + 1
    else:
        count = 2 if before[1:2] == ["ANALYZE"] else 1
    options = before[1:count]
    if not all(word.isalnum() or word in ("(", ",", ")") for word in options):
        raise QueryError("only EXPLAIN, EXPLAIN ANALYZE and EXPLAIN (FORMAT name) are run")
    if count >= len(spans):
        raise QueryError("EXPLAIN of nothing")
    return " ".join(["EXPLAIN", *options]), text[spans[count][0] :].decode()
