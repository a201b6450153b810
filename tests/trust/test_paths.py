"""Paths are literal: no folder name is read as a glob, a partition or a range of rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import trm_data
import trm_eval
from tests.trm_eval.conftest import Evaluated
from trm_data.errors import SpecError
from trm_data.loader.dataset import open_dataset
from trm_data.storage.root import resolve_root
from trm_data.verify.flow import verify_dataset
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest
from trm_train.runs.record import find_run

ODD = ("q[12]/x", "r*", "dataset=evil", "a[0:3]", "{a,b}")


@pytest.mark.parametrize("odd", ODD)
def test_a_root_under_an_odd_name_answers_as_any_other(
    evaluated: Evaluated, tmp_path: Path, odd: str
) -> None:
    """Tested next to roots that its name would match as a glob, with other datasets and invalid results."""
    for decoy in ("q1", "q1/x", "rr", "ab", "a"):
        (tmp_path / decoy).mkdir(exist_ok=True)
        shutil.copytree(evaluated.layout.place, tmp_path / decoy, dirs_exist_ok=True)
    shutil.copytree(evaluated.layout.place, tmp_path / odd, dirs_exist_ok=True)
    (tmp_path / odd / "catalog.duckdb").unlink(missing_ok=True)
    layout = resolve_root(tmp_path / odd)
    with_path = trm_data.sql("SELECT * FROM datasets", layout)
    assert with_path.rows() == trm_data.sql("SELECT * FROM datasets", evaluated.layout).rows()
    for query in (
        "SELECT dataset, split, puzzle_key FROM puzzles ORDER BY ALL",
        "SELECT dataset, experiment, run, row, exact FROM rated_predictions ORDER BY ALL",
        "SELECT * EXCLUDE (heartbeat) FROM runs",
        "SELECT * FROM train_metrics ORDER BY step, split",
    ):
        assert trm_eval.sql(query, layout).rows() == trm_eval.sql(query, evaluated.layout).rows()
    assert not verify_dataset(layout, "small").problems
    assert len(open_dataset("small", layout, "test")) == len(evaluated.test)


def test_a_run_under_an_odd_name_is_restored_and_tested(evaluated: Evaluated, tmp_path: Path) -> None:
    layout = resolve_root(shutil.copytree(evaluated.layout.place, tmp_path / "a[0:3]"))
    row = evaluate_run(layout, find_run(layout, evaluated.record.run), EvalRequest(limit=5)).row
    assert (row["dataset"], row["row_limit"]) == ("small", 5)


@pytest.mark.parametrize("odd", ["a\\b", "t?"])
def test_a_path_that_libraries_cannot_have_is_refused(tmp_path: Path, odd: str) -> None:
    with pytest.raises(SpecError) as refused:
        resolve_root(tmp_path / odd)
    assert str(tmp_path / odd) in str(refused.value)
