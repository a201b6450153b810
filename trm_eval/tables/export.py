"""Writes all tables and views as one DuckDB file.

Small views become tables. Predictions, candidates and traces are stored once, in `all_predictions`, `all_votes` and
`all_traces`; what can be computed from them row by row stays a view. So tokens are stored once, and pairs of runs are
not stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from trm_data.catalog.schema import View, quote_identifier, quote_literal
from trm_data.storage.atomic import sync_file, temporary_path
from trm_data.storage.root import Layout
from trm_eval.errors import ResultError
from trm_eval.tables.index import views_sql
from trm_eval.tables.query import open_results
from trm_eval.tables.views import list_views

OVER_ROWS = (
    "predictions",
    "tested_predictions",
    "rated_predictions",
    "predicted_puzzles",
    "predicted_cells",
    "disagreements",
    "votes",
    "traces",
)
"""Views in the exported file; each depends only on earlier views and tables."""

STORAGE_VERSION = "v1.0.0"
"""Storage format of the file: the oldest that DuckDB guarantees to read."""


@dataclass(frozen=True)
class Exported:
    """Result of the export.

    Attributes:
        path: Path of the file.
        rows: Number of rows of each table.
        views: Names of the views.
        size_bytes: Size of the file.
        problems: A line for each thing that could not be exported.
    """

    path: Path
    rows: dict[str, int]
    views: tuple[str, ...]
    size_bytes: int
    problems: tuple[str, ...]


def write_duckdb(layout: Layout, path: Path, *, force: bool = False) -> Exported:
    """Write all views over results, runs and catalog as a DuckDB file, atomically.

    Args:
        layout: The root.
        path: File to write.
        force: Replace an existing file.
    """
    _check_free(path, force=force)
    views = list_views()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(path)
    try:
        with open_results(layout) as (connection, problems):
            target = quote_literal(str(temporary))
            connection.execute("SET preserve_insertion_order = false")
            connection.execute(f"ATTACH {target} AS out (STORAGE_VERSION {quote_literal(STORAGE_VERSION)})")
            rows = _fill(connection, views)
            connection.execute("DETACH out")
            left_out = tuple(problems)
        sync_file(temporary)
        temporary.replace(path)
    except duckdb.Error as error:
        full = "; free some space" if "no space left" in str(error).lower() else ""
        raise ResultError(f"{path}: could not be written ({error}){full}") from error
    finally:
        for name in (temporary, temporary.with_name(f"{temporary.name}.wal")):
            name.unlink(missing_ok=True)
    return Exported(path, rows, OVER_ROWS, path.stat().st_size, left_out)


def _check_free(path: Path, *, force: bool) -> None:
    if path.is_dir() or (path.exists() and not force):
        way = "give another name" if path.is_dir() else "--force replaces it, or give another name"
        raise ResultError(f"{path}: already exists; {way}")


def _fill(connection: duckdb.DuckDBPyConnection, views: dict[str, View]) -> dict[str, int]:
    """Create the tables and views of the attached file `out`; return the number of rows of each table."""
    rows: dict[str, int] = {}
    for name in views:
        if name not in OVER_ROWS:
            connection.execute(f"CREATE TABLE out.{name} AS SELECT * FROM results.main.{name}")
            found = connection.execute(f"SELECT count(*) FROM out.{name}").fetchone()
            rows[name] = found[0] if found else 0
    connection.execute("USE out")
    for statement in connection.extract_statements(views_sql()):
        # In the file, the catalog's tables are in the same schema as the others.
        if any(f"CREATE VIEW {name} AS" in statement.query for name in OVER_ROWS):
            connection.execute(statement.query.replace("catalog.", ""))
        elif "CREATE MACRO" in statement.query:
            connection.execute(statement.query)
    _comment(connection, views)
    connection.execute("USE results")
    return rows


def _comment(connection: duckdb.DuckDBPyConnection, views: dict[str, View]) -> None:
    for view in views.values():
        kind = "VIEW" if view.name in OVER_ROWS else "TABLE"
        connection.execute(f"COMMENT ON {kind} {view.name} IS {quote_literal(view.says)}")
        for column in view.columns:
            target = f"{view.name}.{quote_identifier(column.name)}"
            connection.execute(f"COMMENT ON COLUMN {target} IS {quote_literal(column.comment)}")
