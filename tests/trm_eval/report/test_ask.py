"""The SQL shown with a figure is the SQL that gave its numbers."""

from __future__ import annotations

from tests.trm_eval.conftest import Evaluated
from trm_eval.report.ask import ask, filled
from trm_eval.tables.query import query_results


def test_values_become_literals() -> None:
    sql = filled("SELECT ? WHERE run IN ? AND k = ?", ["it's", ["a", "b'; --"], 3])
    assert sql == "SELECT 'it''s' WHERE run IN ['a', 'b''; --'] AND k = 3"


def test_what_is_printed_gives_the_same_rows(evaluated: Evaluated) -> None:
    problems: list[str] = []
    asked = ask(
        evaluated.layout, "tests", "SELECT run, count FROM evals WHERE list_contains(?, run)",
        [[evaluated.record.run, "it's none"]], problems,
    )  # fmt: skip
    assert asked.rows == [{"run": evaluated.record.run, "count": 12}]
    assert query_results(evaluated.layout, asked.query.sql).rows == [(evaluated.record.run, 12)]
    assert not problems
