"""A finished run, and a state with its shapes, shared by the tests of checkpoints."""

from __future__ import annotations

import pytest

from tests.support.roots import root_with
from tests.trm_train.test_loop import TINY, run
from trm_data.storage.root import Layout
from trm_train.state import TrainState, init_state
from trm_train.training.start import TrainResult


@pytest.fixture(scope="package")
def finished(small_layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> TrainResult:
    """A run with checkpoints at 4, 8 and 12 steps. Tests must not change it."""
    return run(root_with("small", tmp_path_factory.mktemp("checkpoints"), small_layout))


@pytest.fixture(scope="package")
def state(finished: TrainResult) -> TrainState:
    """A state with the run's shapes, at step 0."""
    return init_state(TINY, finished.record.input_spec, TINY.data.global_batch_size)[1]
