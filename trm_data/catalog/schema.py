"""The catalog's tables, as `catalogs/schema.sql` defines them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from trm_data.errors import QueryError, no_such

TABLES = (
    "datasets",
    "sources",
    "splits",
    "shards",
    "puzzles",
    "augmentations",
    "examples",
    "identifiers",
    "rejects",
)


@cache
def schema_sql() -> str:
    """Return the SQL statements that create all tables, with their comments."""
    return files("catalogs").joinpath("schema.sql").read_text("utf-8")


def quote_identifier(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """Return a text as an SQL literal, for statements without `?` parameters, such as COPY."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class Column:
    """A column of a table or view; its comment has the unit."""

    name: str
    type: str
    comment: str


@dataclass(frozen=True)
class View:
    """A table or view, its description, and its columns."""

    name: str
    says: str
    columns: tuple[Column, ...]


def list_tables() -> dict[str, View]:
    """Return every table of the dataset catalog, by name."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(schema_sql())
        says = dict(connection.execute("SELECT table_name, comment FROM duckdb_tables()").fetchall())
        columns = connection.execute(
            "SELECT table_name, column_name, data_type, comment FROM duckdb_columns() WHERE NOT internal "
            "ORDER BY table_name, column_index"
        ).fetchall()
    of: dict[str, list[Column]] = {table: [] for table in TABLES}
    for table, name, kind, comment in columns:
        of[table].append(Column(name, kind, comment or ""))
    return {table: View(table, says[table] or "", tuple(of[table])) for table in TABLES}


def find_view(views: Mapping[str, View], name: str) -> View:
    """Return the view with this name, or raise QueryError."""
    if name not in views:
        raise QueryError(no_such(f"no table {name!r}", name, views, "trm-eval tables"))
    return views[name]
