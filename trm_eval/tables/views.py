"""Descriptions of the views: names, texts, and columns with types and units. Needs no root."""

from __future__ import annotations

import re
import tempfile
from contextlib import closing

import duckdb

from trm_data.catalog.schema import Column, View, list_tables
from trm_data.storage.root import resolve_root
from trm_eval.tables.index import results_index, views_sql

DESCRIBED = re.compile(r"((?:^--.*\n)+)CREATE VIEW (\w+) AS", re.MULTILINE)

COLUMNS_SQL = """\
SELECT table_name, column_name, data_type, comment
FROM duckdb_columns()
WHERE schema_name = 'main' AND NOT internal
ORDER BY table_name, column_index"""


def described() -> dict[str, str]:
    """Return the description of each view over results: the comment before it in `catalogs/results.sql`."""
    found: dict[str, str] = {}
    for comment, name in DESCRIBED.findall(views_sql()):
        lines = (line.removeprefix("--").strip() for line in comment.splitlines())
        found[name] = " ".join(lines)
    return found


def list_views() -> dict[str, View]:
    """Return every view by name: those over runs and results, and the tables of the dataset catalog."""
    with tempfile.TemporaryDirectory() as empty:
        index = results_index(resolve_root(empty))
        with closing(duckdb.connect(str(index), read_only=True)) as connection:
            rows = connection.execute(COLUMNS_SQL).fetchall()
    says, columns = described(), dict[str, list[Column]]()
    says |= {table.name: table.says for table in list_tables().values()}
    for view, name, kind, comment in rows:
        columns.setdefault(view, []).append(Column(name, kind, comment or ""))
    return {view: View(view, says[view], tuple(columns[view])) for view in columns}
