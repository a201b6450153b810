"""SQL as a person types it, on the connection that reads and does nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from trm_data.storage.root import Layout
from trm_eval.tables.query import query_results

MOST_ROWS = 10_000
"""Rows of an answer that a page shows."""


@dataclass(frozen=True)
class Answer:
    """What came of a query.

    Attributes:
        table: Its first rows.
        cut: Whether there are more.
        problems: A line for each thing that could not be read and was left out.
    """

    table: pa.Table
    cut: bool
    problems: tuple[str, ...]


def answer(layout: Layout, sql: str) -> Answer:
    """The first rows of a query.

    Raises:
        QueryError: It cannot be run, or is no query.
        CorruptFileError: A file has other bytes than were written.
    """
    found = query_results(layout, sql, as_table=True, most_rows=MOST_ROWS + 1)
    assert found.table is not None
    return Answer(found.table.slice(0, MOST_ROWS), found.table.num_rows > MOST_ROWS, found.problems)
