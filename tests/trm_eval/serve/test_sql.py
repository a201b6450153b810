"""The SQL box can read tables and do nothing else."""

from __future__ import annotations

import pytest

from trm_data.storage.root import Layout
from trm_eval.serve import sql as page
from trm_eval.serve.sql import answer
from trm_eval.tables.named import load_query
from trm_eval.tables.query import query_results


def test_a_query_gives_what_trm_eval_sql_gives(root: Layout) -> None:
    sql = load_query("accuracy_by_rating")
    found = answer(root, sql)
    expected = query_results(root, sql)
    assert (found.table.column_names, found.cut, found.problems) == (expected.columns, False, ())
    assert [tuple(row.values()) for row in found.table.to_pylist()] == expected.rows


def test_long_answers_are_cut_and_said_to_be(root: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MOST_ROWS", 5)
    for rows, cut in ((5, False), (6, True), (10**12, True)):
        found = answer(root, f"FROM range({rows})")
        assert (found.table.num_rows, found.cut) == (5, cut)
    assert answer(root, "SELECT row FROM predictions WHERE row < 0").table.num_rows == 0
