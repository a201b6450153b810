"""Puzzles of an evaluation, filtered and in pages, and one of them drawn."""

from __future__ import annotations

import pytest

from tests.trm_eval.conftest import Evaluated
from trm_data.storage.root import Layout
from trm_eval.errors import ResultError
from trm_eval.serve import puzzles
from trm_eval.serve.puzzles import Wanted, count_puzzles, puzzles_of, range_of
from trm_eval.show import answered_row
from trm_eval.tables.query import query_results


def listed(root: Layout, evaluation: str, wanted: Wanted, page: int = 0) -> list[int]:
    rows = puzzles_of(root, evaluation, wanted, page, []).rows
    return [row["row"] for row in rows]


def test_filters_are_those_of_sql(root: Layout, evaluated: Evaluated) -> None:
    evaluation = evaluated.row["evaluation"]
    facts = query_results(root, "SELECT row, exact, rating FROM predicted_puzzles ORDER BY row").rows
    assert listed(root, evaluation, Wanted()) == [row for row, _, _ in facts]
    assert listed(root, evaluation, Wanted("solved")) == [row for row, exact, _ in facts if exact]
    assert listed(root, evaluation, Wanted("failed")) == [row for row, exact, _ in facts if not exact]
    (known,) = range_of(root, evaluation, []).rows
    ratings = [rating for _, _, rating in facts]
    assert (known["puzzles"], known["lowest"], known["highest"]) == (12, min(ratings), max(ratings))
    hard = Wanted("failed", (max(ratings), max(ratings)))
    expected = [row for row, exact, rating in facts if rating == max(ratings) and not exact]
    assert listed(root, evaluation, hard) == expected
    assert count_puzzles(root, evaluation, hard, []) == len(expected)


def test_pages_have_each_puzzle_once(
    root: Layout, evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(puzzles, "PAGE_ROWS", 5)
    monkeypatch.setattr(puzzles, "PUZZLES_SQL", puzzles.PUZZLES_SQL.replace("LIMIT 200", "LIMIT 5"))
    pages = [listed(root, evaluated.row["evaluation"], Wanted(), page) for page in range(4)]
    assert [len(page) for page in pages] == [5, 5, 2, 0]
    assert [row for page in pages for row in page] == list(range(12))


def test_a_row_that_is_not_there_is_named(root: Layout, evaluated: Evaluated) -> None:
    evaluation = evaluated.row["evaluation"]
    with pytest.raises(ResultError, match=f"evaluation {evaluation} has no row 99"):
        answered_row(root, evaluation, 99)
