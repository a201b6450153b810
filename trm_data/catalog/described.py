"""What the catalog's tables are: their names, what each says, and their columns with types and units; needs no root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trm_data.catalog.schema import TABLES, schema_sql
from trm_data.closest import no_such
from trm_data.errors import QueryError


@dataclass(frozen=True)
class Column:
    """A column of a table or view; its comment has the unit."""

    name: str
    type: str
    comment: str


@dataclass(frozen=True)
class View:
    """A table or view, what it says, and its columns."""

    name: str
    says: str
    columns: tuple[Column, ...]


def list_tables() -> dict[str, View]:
    """Every table of the dataset catalog, by name."""
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


def find_view(views: Mapping[str, View], name: str, program: str) -> View:
    """The view of that name.

    Raises:
        QueryError: There is none; the message names the closest.
    """
    if name not in views:
        raise QueryError(no_such(f"no table {name!r}", name, views, f"{program} tables"))
    return views[name]
