"""Queries the tables for the numbers of a figure; the SQL is shown next to the figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trm_data.catalog.schema import quote_literal
from trm_data.storage.root import Layout
from trm_eval.report.blocks import Query
from trm_eval.tables.query import query_results


@dataclass(frozen=True)
class Asked:
    """Result of a query.

    Attributes:
        query: The query with its values filled in; `trm-eval sql` gives the same rows.
        rows: Rows by column name.
    """

    query: Query
    rows: list[dict[str, Any]]


def ask(
    layout: Layout,
    says: str,
    sql: str,
    values: Sequence[object],
    problems: list[str],
    *,
    evaluations: Sequence[str] | None = None,
) -> Asked:
    """Run a query; what could not be read is added to the problems, without repeats.

    Args:
        layout: The root.
        says: Description of the result.
        sql: One statement; each `?` is replaced by a value.
        values: Strings, numbers, and lists of them.
        problems: List of problems of the report, extended here.
        evaluations: If given, the query reads predictions, votes or traces of these evaluations only.
    """
    query = Query(says, filled(sql, values))
    found = query_results(layout, query.sql, evaluations=evaluations)
    problems += [problem for problem in found.problems if problem not in problems]
    return Asked(query, [dict(zip(found.columns, row, strict=True)) for row in found.rows])


def without_root(layout: Layout, message: object) -> str:
    """Return a message without the path of the root: a report is shared, the machine's folders are not."""
    return str(message).replace(layout.place, "ROOT")


def filled(sql: str, values: Sequence[object]) -> str:
    """Replace each `?` of a statement by a literal; the statement may have no other question marks."""
    parts = sql.split("?")
    assert len(parts) == len(values) + 1, sql
    literals = [_literal(value) for value in values]
    return "".join(part + literal for part, literal in zip(parts, [*literals, ""], strict=True))


def _literal(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_literal(item) for item in value)}]"
    return quote_literal(value) if isinstance(value, str) else repr(value)
