"""Copying result tables between roots: all, of a run, of an experiment; existing files are not copied again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trm_eval.conftest import Evaluated
from trm_data.errors import SpecError
from trm_data.storage.root import resolve_root
from trm_eval.errors import ResultError
from trm_eval.sync import sync_results
from trm_eval.tables.query import query_results


@pytest.mark.parametrize("of", ["run", "experiment", "all"])
def test_results_arrive_and_are_not_copied_twice(evaluated: Evaluated, tmp_path: Path, of: str) -> None:
    layout = resolve_root(tmp_path)
    runs = {"run": [evaluated.record.run], "experiment": ["tiny"], "all": []}[of]
    first = sync_results(evaluated.layout, layout, runs)
    again = sync_results(evaluated.layout, layout, runs)
    assert (first.files_copied, first.files_kept) == (4, 0)  # runs, train_metrics, evals, predictions
    assert (again.files_copied, again.files_kept, again.bytes_copied) == (0, 4, 0)
    counts = "SELECT (SELECT count(*) FROM evals), (SELECT count(*) FROM predictions)"
    assert query_results(layout, counts).rows == [(1, 12)]


def test_a_copy_with_other_bytes_is_replaced(evaluated: Evaluated, tmp_path: Path) -> None:
    layout = resolve_root(tmp_path)
    sync_results(evaluated.layout, layout)
    file = next((tmp_path / "results" / "evals").rglob("*.parquet"))
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"x")
    assert sync_results(evaluated.layout, layout).files_copied == 1
    assert file.read_bytes() == whole


def test_what_cannot_be(evaluated: Evaluated, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="are the same root"):
        sync_results(evaluated.layout, resolve_root(evaluated.layout.place))
    with pytest.raises(ResultError, match="no results of 'nothing'"):
        sync_results(evaluated.layout, resolve_root(tmp_path), ["nothing"])
