"""Descriptions of the views: names, texts, and columns with types and units. Needs no root."""

from __future__ import annotations

import re
import tempfile
from importlib.resources import files

from trm_data.catalog.schema import Column, View
from trm_data.storage.root import resolve_root
from trm_eval.tables.query import query_results

DESCRIBED = re.compile(r"((?:^--.*\n)+)CREATE VIEW (\w+) AS", re.MULTILINE)

COLUMNS_SQL = """\
SELECT c.table_name, t.comment, c.column_name, c.data_type, c.comment
FROM duckdb_columns() AS c
LEFT JOIN duckdb_tables() AS t ON t.database_name = 'catalog' AND t.table_name = c.table_name
WHERE c.database_name = 'memory' AND NOT c.internal
ORDER BY c.table_name, c.column_index"""


def described() -> dict[str, str]:
    """Return the description of each view over results: the comment before it in `catalogs/results.sql`."""
    text = files("catalogs").joinpath("results.sql").read_text("utf-8")
    found: dict[str, str] = {}
    for comment, name in DESCRIBED.findall(text):
        lines = (line.removeprefix("--").strip() for line in comment.splitlines())
        found[name] = " ".join(lines)
    return found


def list_views() -> dict[str, View]:
    """Return every view by name: those over runs and results, and the tables of the dataset catalog."""
    with tempfile.TemporaryDirectory() as nothing:
        rows = query_results(resolve_root(nothing), COLUMNS_SQL).rows
    says, columns = described(), dict[str, list[Column]]()
    for view, of_catalog, name, kind, comment in rows:
        says.setdefault(view, of_catalog or "")
        columns.setdefault(view, []).append(Column(name, kind, comment or ""))
    return {view: View(view, says[view], tuple(columns[view])) for view in columns if says[view]}
