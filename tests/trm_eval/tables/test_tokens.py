"""SQL on cells: the tokens of puzzles, solutions and predictions, cell by cell."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.trm_eval.conftest import Evaluated
from trm_data.storage.root import Layout, resolve_root
from trm_eval.tables import live as tokens
from trm_eval.tables.query import query_results


@pytest.fixture
def copied(evaluated: Evaluated, tmp_path: Path) -> Layout:
    """A copy of the root that a test may change."""
    shutil.copytree(evaluated.layout.place, tmp_path / "root")
    return resolve_root(tmp_path / "root")


def test_puzzles_and_solutions_are_those_of_the_dataset(
    evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "READ_AT_ONCE", 5)
    sql = "SELECT row, group_index, inputs, labels, grid_columns FROM puzzle_tokens ORDER BY row"
    found = query_results(evaluated.layout, sql).rows
    whole = evaluated.test.read(np.arange(12))
    assert [row[:2] for row in found] == [(row, row) for row in range(12)]
    assert np.array_equal([row[2] for row in found], whole["inputs"])
    assert np.array_equal([row[3] for row in found], whole["labels"])
    assert {row[4] for row in found} == {6}


def test_which_cells_are_wrong_and_were_they_given(evaluated: Evaluated) -> None:
    predictions = query_results(evaluated.layout, "SELECT prediction FROM predictions ORDER BY row").rows
    answers = np.array([row[0] for row in predictions])
    whole = evaluated.test.read(np.arange(12))
    wrong, given = answers != whole["labels"], whole["inputs"] != 1
    sql = "SELECT given, count(*) FROM predicted_cells WHERE wrong GROUP BY given ORDER BY given"
    expected = [(kind, int((wrong & (given == kind)).sum())) for kind in (False, True)]
    assert query_results(evaluated.layout, sql).rows == [each for each in expected if each[1]]
    assert wrong.any()
    sql = "SELECT row, cell, grid_row, grid_column, input, label, predicted FROM predicted_cells ORDER BY row, cell"
    cells = np.array(query_results(evaluated.layout, sql).rows)
    assert len(cells) == 12 * 36
    assert np.array_equal(cells[:, 2] * 6 + cells[:, 3], cells[:, 1])
    for column, values in ((4, whole["inputs"]), (5, whole["labels"]), (6, answers)):
        assert np.array_equal(cells[:, column].reshape(12, 36), values)


def test_without_the_dataset_answers_stay_and_puzzles_are_null(copied: Layout) -> None:
    count = "SELECT count(*), count(predicted), count(input), count(wrong) FROM predicted_cells"
    assert query_results(copied, count).rows == [(432, 432, 432, 432)]
    shutil.rmtree(Path(copied.place) / "datasets" / "small")
    found = query_results(copied, count)
    assert (found.rows, found.problems) == ([(432, 432, 0, 0)], ())


def test_a_split_that_is_too_large_is_named(evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST_BYTES", 100)
    found = query_results(evaluated.layout, "SELECT * FROM puzzle_tokens")
    assert found.rows == []
    assert "small (test): 0.0 GB of tokens, of at most 0: not in puzzle_tokens" in found.problems[0]
