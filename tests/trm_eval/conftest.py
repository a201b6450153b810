"""One small run, trained and evaluated on its test split, for all evaluation tests that do not change it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.recorded import recorded_root
from tests.support.roots import root_with
from tests.trm_train.test_loop import run
from trm_data.loader.dataset import Dataset, open_dataset
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.evaluation.flow import EvalResult, evaluate_run
from trm_eval.identity import EvalRequest
from trm_train.runs.record import RunRecord, list_runs, read_record
from trm_train.training import observe


@dataclass(frozen=True)
class Evaluated:
    """A root with a trained run and one evaluation.

    Attributes:
        layout: The root.
        folder: Folder of the run.
        record: Record of the run.
        result: Its evaluation on all 12 test puzzles.
        test: The test split.
    """

    layout: Layout
    folder: Folder
    record: RunRecord
    result: EvalResult
    test: Dataset

    @property
    def row(self) -> dict[str, Any]:
        """Row of the evaluation in `evals`."""
        return self.result.row


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    """A recorded root, with only the weights of the run's last step. Tests must not change it."""
    layout = recorded_root(tmp_path_factory.mktemp("evaluated"), "evaluated")
    (folder,) = list_runs(layout)
    record = read_record(folder)
    (evals,) = Path(layout.place).glob("results/evals/*/*/*.parquet")
    (row,) = pq.ParquetFile(evals).read().to_pylist()
    row = {name: value for name, value in row.items() if value is not None}
    result = EvalResult(run=record.run, experiment=record.experiment, row=row)
    return Evaluated(layout, folder, record, result, open_dataset("small", layout, "test"))


@pytest.fixture(scope="session")
def trained(small_layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    """The same run, trained and evaluated here, with all checkpoints. Tests must not change it."""
    layout = root_with("small", tmp_path_factory.mktemp("trained"), small_layout)
    with pytest.MonkeyPatch.context() as patched:
        for name in ("FIRST_S", "EVERY_S"):  # metrics files then end at checkpoints, even on a slow machine
            patched.setattr(observe, name, math.inf)
        done = run(layout)
    result = evaluate_run(layout, done.folder, EvalRequest())
    return Evaluated(layout, done.folder, done.record, result, open_dataset("small", layout, "test"))
