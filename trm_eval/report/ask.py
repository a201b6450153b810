"""Queries the tables for the numbers of a figure, and keeps the SQL, which is printed beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trm_data.catalog.schema import quote_literal
from trm_data.storage.root import Layout
from trm_eval.report.blocks import Query
from trm_eval.tables.files import Only
from trm_eval.tables.query import query_results


@dataclass(frozen=True)
class Asked:
    """An answer of the tables.

    Attributes:
        query: What was asked, its values filled in: `trm-eval sql` gives the same rows.
        rows: By the names of the columns.
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
    runs: Sequence[str] | None = None,
    evaluations: Sequence[str] | None = None,
) -> Asked:
    """Run a query; what it was without is added to the problems, once.

    Args:
        layout: The root.
        says: What the query gives, for people.
        sql: One statement; each `?` is one of the values.
        values: Texts, numbers and lists of them.
        problems: What the report is without.
        runs: The runs whose metrics and evaluations it reads, where it reads no others.
        evaluations: The evaluations whose predictions, votes or traces it reads, where it reads no others.
    """
    query = Query(says, filled(sql, values))
    only = Only(*(None if names is None else frozenset(names) for names in (runs, evaluations)))
    found = query_results(layout, query.sql, only=only)
    problems += [problem for problem in found.problems if problem not in problems]
    return Asked(query, [dict(zip(found.columns, row, strict=True)) for row in found.rows])


def filled(sql: str, values: Sequence[object]) -> str:
    """A statement with a literal for each `?`; it has no other question marks."""
    parts = sql.split("?")
    assert len(parts) == len(values) + 1, sql
    literals = [_literal(value) for value in values]
    return "".join(part + literal for part, literal in zip(parts, [*literals, ""], strict=True))


def _literal(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_literal(item) for item in value)}]"
    return quote_literal(value) if isinstance(value, str) else repr(value)
