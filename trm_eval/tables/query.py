"""Runs SQL over the result tables and the dataset catalog, and can do nothing else.

The tables are registered as Arrow datasets, so only the columns and rows a query needs are read; after that
the connection has no access to files or the network, and its settings are locked.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from importlib.resources import files

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads

from trm_data.catalog.query import QueryResult, run_locked
from trm_data.catalog.schema import TABLES as CATALOG_TABLES
from trm_data.catalog.schema import quote_identifier, quote_literal, schema_sql
from trm_data.catalog.write import ensure_catalog
from trm_data.errors import QueryError
from trm_data.storage.root import Layout
from trm_eval.tables.schema import PARTITIONING, TABLES, comments

WHICH_EVALUATION = ("run", "step", "weights", "dataset", "split", "limit", "supervision_steps", "evaluation")
"""Columns of the named queries that say which evaluation a row is of."""


def query_results(layout: Layout, sql: str, parameters: Sequence[object] = ()) -> QueryResult:
    """The result of a query over results and catalog.

    Args:
        layout: The root.
        sql: A query, or `@name` for one of `named_queries`.
        parameters: Values for `?` in it.

    Raises:
        QueryError: The SQL cannot be run, or there is no query of that name.
    """
    text = load_query(sql[1:]) if sql.startswith("@") else sql
    with _connection(layout) as connection:
        return run_locked(connection, text, parameters)


def query_evaluation(layout: Layout, name: str, evaluation: str) -> QueryResult:
    """A named query, for one evaluation alone; the columns that say which one are left out."""
    sql = load_query(name).rstrip().rstrip(";")
    found = query_results(layout, f"SELECT * FROM (\n{sql}\n) WHERE evaluation = ?", [evaluation])
    kept = [position for position, column in enumerate(found.columns) if column not in WHICH_EVALUATION]
    return QueryResult([found.columns[i] for i in kept], [tuple(row[i] for i in kept) for row in found.rows])


def named_queries() -> dict[str, str]:
    """Names of the queries that ship with the package, and what each answers (its first comment)."""
    found: dict[str, str] = {}
    for file in files("catalogs").joinpath("queries").iterdir():
        if file.name.endswith(".sql"):
            first = file.read_text("utf-8").partition("\n")[0]
            found[file.name.removesuffix(".sql")] = first.removeprefix("--").strip()
    return dict(sorted(found.items()))


def load_query(name: str) -> str:
    """The SQL of a named query.

    Raises:
        QueryError: There is none of that name; the message lists them.
    """
    queries = named_queries()
    if name not in queries:
        raise QueryError(f"no query @{name}; there are: {', '.join('@' + known for known in queries)}")
    return files("catalogs").joinpath(f"queries/{name}.sql").read_text("utf-8")


@contextmanager
def _connection(layout: Layout) -> Generator[duckdb.DuckDBPyConnection, None, None]:
    """A connection in memory with the views over results and catalog."""
    with closing(duckdb.connect()) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        _attach_catalog(connection, layout)
        for table in TABLES:
            connection.register(f"{table}_files", _files(layout, table))
        connection.execute(files("catalogs").joinpath("results.sql").read_text("utf-8"))
        _comment(connection)
        yield connection


def _comment(connection: duckdb.DuckDBPyConnection) -> None:
    """Give every column of every view its comment: from the schemas, or from the catalog's tables."""
    known = connection.execute(
        "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE database_name = 'catalog'"
    ).fetchall()
    texts = {(table, column): text for table, column, text in known if text}
    texts |= {(table, column): text for table in TABLES for column, text in comments(table).items()}
    by_column = {
        column: text
        for (table, column), text in texts.items()
        if table in ("puzzles", "evals", "predictions")
    }
    columns = connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = 'memory' AND NOT internal"
    ).fetchall()
    for table, column in columns:
        text = texts.get((table, column)) or (by_column.get(column) if table == "predicted_puzzles" else None)
        if text:
            target = f"{quote_identifier(table)}.{quote_identifier(column)}"
            connection.execute(f"COMMENT ON COLUMN {target} IS {quote_literal(text)}")


def _attach_catalog(connection: duckdb.DuckDBPyConnection, layout: Layout) -> None:
    """The dataset catalog as `catalog`, and its tables under their own names; empty without datasets."""
    if layout.dataset_names():
        path = quote_literal(str(ensure_catalog(layout)))
        connection.execute(f"ATTACH {path} AS catalog (READ_ONLY)")
    else:
        connection.execute("ATTACH ':memory:' AS catalog")
        connection.execute("USE catalog")
        connection.execute(schema_sql())
        connection.execute("USE memory")
    for table in CATALOG_TABLES:
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM catalog.{table}")


def _files(layout: Layout, table: str) -> pads.Dataset | pa.Table:
    """All Parquet files of a table, lazily; an empty table where there are none."""
    folder = layout.machine / "results" / table
    paths = [
        str(path) for path in folder.glob("experiment=*/run=*/*.parquet") if not path.name.startswith(".")
    ]
    schema = pa.unify_schemas([TABLES[table], PARTITIONING])
    if not paths:
        return schema.empty_table()
    partitioning = pads.partitioning(PARTITIONING, flavor="hive")
    return pads.dataset(sorted(paths), schema=schema, format="parquet", partitioning=partitioning)
