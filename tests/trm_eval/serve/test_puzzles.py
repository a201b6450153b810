"""Puzzles of an evaluation, filtered, and one of them drawn."""

from __future__ import annotations

import pytest

from tests.trm_eval.conftest import Evaluated
from trm_data.storage.root import Layout
from trm_eval.errors import ResultError
from trm_eval.serve.puzzles import puzzles_of, range_of
from trm_eval.show import answered_puzzles
from trm_eval.tables.query import query_results


def listed(
    root: Layout, evaluation: str, outcome: str, ratings: tuple[float, float] | None = None
) -> list[int]:
    return [row["row"] for row in puzzles_of(root, evaluation, outcome, ratings, []).rows]


def test_filters_are_those_of_sql(root: Layout, evaluated: Evaluated) -> None:
    evaluation = evaluated.row["evaluation"]
    facts = query_results(root, "SELECT row, exact, rating FROM predicted_puzzles ORDER BY row").rows
    assert listed(root, evaluation, "all") == [row for row, _, _ in facts]
    assert listed(root, evaluation, "solved") == [row for row, exact, _ in facts if exact]
    assert listed(root, evaluation, "failed") == [row for row, exact, _ in facts if not exact]
    (known,) = range_of(root, evaluation, []).rows
    ratings = [rating for _, _, rating in facts]
    assert (known["puzzles"], known["lowest"], known["highest"]) == (12, min(ratings), max(ratings))
    expected = [row for row, exact, rating in facts if rating == max(ratings) and not exact]
    assert listed(root, evaluation, "failed", (max(ratings), max(ratings))) == expected


def test_a_row_that_is_not_there_is_named(root: Layout, evaluated: Evaluated) -> None:
    evaluation = evaluated.row["evaluation"]
    with pytest.raises(
        ResultError, match=f"row 99: not among the 12 rows, 0 to 11, of evaluation {evaluation}"
    ):
        answered_puzzles(root, evaluation, index=99)
