"""One small run, trained once and evaluated on its test split, for all tests of evaluation that change nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.harness.roots import root_with
from tests.trm_train.test_loop import run
from trm_data.loader.dataset import Dataset, open_dataset
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.evaluate.flow import EvalResult, evaluate_run
from trm_eval.identity import EvalRequest
from trm_train.run.record import RunRecord


@dataclass(frozen=True)
class Evaluated:
    """A root with a trained run and one evaluation.

    Attributes:
        layout: The root.
        folder: The run's.
        record: The run.
        result: Its evaluation, of all 12 test puzzles.
        test: The test split.
    """

    layout: Layout
    folder: Folder
    record: RunRecord
    result: EvalResult
    test: Dataset

    @property
    def row(self) -> dict[str, Any]:
        """Of the evaluation, in `evals`."""
        return self.result.row


@pytest.fixture(scope="session")
def evaluated(small_layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    """Tests must not change it."""
    layout = root_with("small", tmp_path_factory.mktemp("evaluated"), small_layout)
    trained = run(layout)
    result = evaluate_run(layout, trained.folder, EvalRequest())
    return Evaluated(layout, trained.folder, trained.record, result, open_dataset("small", layout, "test"))
