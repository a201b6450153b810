"""Predictions are written in parts as they arrive; the sums match the written rows.

Counts of wrong and of labelled cells.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.trm_eval.conftest import Evaluated
from trm_data.kinds.base import Scores
from trm_data.kinds.sudoku.kind import SudokuKind
from trm_data.storage.root import resolve_root
from trm_eval import predictions
from trm_eval.errors import EvalError
from trm_eval.predictions import PredictionWriter
from trm_eval.rollout import Inferred
from trm_eval.tables.schema import EVALS, NOTIONS, PREDICTIONS

RATINGS = np.array([0.0, 2.5, *[np.nan] * 10], np.float32)
"""Ratings of the twelve groups of the test split."""


def batch(evaluated: Evaluated, first: int, count: int, *, wrong: int = 0) -> Inferred:
    """Return correct answers for some rows, except for `wrong` cells of the first."""
    tokens = evaluated.test.read(np.arange(first, first + count))["labels"].astype(np.uint8)
    tokens[0, :wrong] = tokens[0, :wrong] % 7 + 2
    return Inferred(
        rows=np.arange(first, first + count),
        predictions=tokens,
        q_halt_logits=np.linspace(-1, 1, count, dtype=np.float32),
        halt_steps=np.arange(count, dtype=np.int32) % 3,
        steps=np.full(count, 3, np.int32),
        wrong_by_step=np.zeros((3, count), np.int32),
        metrics={},
        seconds=1.0,
        spent=3 * count,
    )


def test_parts_are_written_as_rows_come(
    evaluated: Evaluated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictions, "PART_EXAMPLES", 4)
    writer = PredictionWriter(resolve_root(tmp_path), evaluated.record, "e", evaluated.test, 3, RATINGS)
    written = []
    for first, count in ((0, 3), (3, 7), (10, 1), (11, 1)):
        writer.add(batch(evaluated, first, count, wrong=2 if first == 3 else 0))
        written.append(len(writer.parts))
    assert written == [0, 2, 2, 3]  # batches are split where a part ends
    writer.finish()
    assert writer.parts == ["e-00000", "e-00001", "e-00002"]
    assert (writer.exact, writer.cells, writer.wrong_cells) == (11, 12 * 36, 2)

    files = [next(tmp_path.rglob(f"{part}.*.parquet")) for part in writer.parts]
    tables = [pq.read_table(file, partitioning=None) for file in files]
    assert [table.num_rows for table in tables] == [4, 4, 4]
    assert [set(table["part"].to_pylist()) for table in tables] == [{part} for part in writer.parts]
    assert [row for table in tables for row in table["row"].to_pylist()] == list(range(12))
    assert tables[0]["wrong_cells"].to_pylist() == [0, 0, 0, 2]
    assert tables[0]["rating"].to_pylist() == [0.0, 2.5, None, None]
    assert writer.rated == 2
    assert tables[0]["exact"].to_pylist() == [True, True, True, False]
    assert tables[1]["halt_step"].to_pylist() == [1, 2, None, 1]  # 0 means none
    picks = evaluated.test.groups.picks(np.arange(12))
    assert [group for table in tables for group in table["group_index"].to_pylist()] == picks.groups.tolist()


def test_answers_are_scored_by_the_kind(evaluated: Evaluated, tmp_path: Path) -> None:
    writer = PredictionWriter(resolve_root(tmp_path), evaluated.record, "e", evaluated.test, 3, RATINGS)
    writer.add(batch(evaluated, 0, 12, wrong=36))
    writer.finish()
    assert writer.scored == {"given_kept_count": 11, "valid_count": 11, "optimal_count": None}
    table = pq.read_table(next(tmp_path.rglob("e-00000.*.parquet")), partitioning=None)
    assert table["valid"].to_pylist() == table["given_kept"].to_pylist() == [False] + [True] * 11
    assert table["optimal"].null_count == 12


def test_rows_without_labels_are_scored_and_not_counted(
    evaluated: Evaluated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shares are over the rows with labels, as `count` is."""
    read = evaluated.test.read

    def half(rows: np.ndarray) -> dict[str, np.ndarray]:
        found = read(rows)
        return {**found, "labels": np.where((rows < 6)[:, None], 0, found["labels"])}

    tokens = batch(evaluated, 0, 12)
    unlabelled = SimpleNamespace(manifest=evaluated.test.manifest, groups=evaluated.test.groups, read=half)
    writer = PredictionWriter(resolve_root(tmp_path), evaluated.record, "e", unlabelled, 3, RATINGS)
    writer.add(tokens)
    writer.finish()
    assert (writer.rows, writer.labelled) == (12, 6)
    assert writer.scored == {"given_kept_count": 6, "valid_count": 6, "optimal_count": None}
    table = pq.read_table(next(tmp_path.rglob("e-00000.*.parquet")), partitioning=None)
    assert table["given_kept"].to_pylist() == [True] * 12


def test_a_score_of_another_shape_is_named(
    evaluated: Evaluated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SudokuKind, "score", lambda *_: Scores(valid=np.ones((12, 36), np.bool_)))
    writer = PredictionWriter(resolve_root(tmp_path), evaluated.record, "e", evaluated.test, 3, RATINGS)
    with pytest.raises(
        EvalError, match=r"kind sudoku: score gave valid as bool \(12, 36\), expected bool \(12,\)"
    ):
        writer.add(batch(evaluated, 0, 12))


def test_the_columns_are_the_notions_of_scores() -> None:
    assert tuple(notion.name for notion in dataclasses.fields(Scores)) == NOTIONS
    assert {f"{notion}_count" for notion in NOTIONS} <= set(EVALS.names)
    assert set(NOTIONS) <= set(PREDICTIONS.names)
