"""A run reports soon after its first step and then ever less often; a status that cannot be is none."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.trm_train.test_loop import EXPERIMENT, TINY
from trm_data.manifest import read_manifest
from trm_data.storage.local import OwnTurn
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder
from trm_train.console import RunConsole
from trm_train.errors import NotFiniteError
from trm_train.metrics.table import read_metrics
from trm_train.run import observe
from trm_train.run.observe import LOGS, STATUS_FILE, Observer, read_status
from trm_train.run.record import make_record

METRICS = {
    "count": np.int64(2),
    "accuracy": np.float64(1.5),
    "exact_accuracy": np.int64(1),
    "q_halt_accuracy": np.int64(1),
    "steps": np.int64(4),
    "lm_loss": np.float64(8.0),
    "q_halt_loss": np.float64(4.0),
}


class Clock:
    """What `time.perf_counter` says."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(observe, "time", clock)
    return clock


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return resolve_root(tmp_path).runs.within("run")


@pytest.fixture
def observer(small_layout: Layout, folder: Folder, clock: Clock) -> Observer:
    record = make_record(EXPERIMENT, TINY, read_manifest(small_layout, "small"))
    compiled: Any = SimpleNamespace(seconds=3.0, num_parameters=1)
    tracker: Any = SimpleNamespace(log=lambda *_: None)
    console = RunConsole(TINY, quiet=True)
    rates = np.full(1000, 1e-3)
    return Observer(folder, record, 0, rates, compiled, console, tracker, OwnTurn())


def test_reports_come_soon_and_then_less_often(observer: Observer, folder: Folder, clock: Clock) -> None:
    observer.begin()
    reported, before = [], 0
    for second in range(1, 200):
        clock.now = 100.0 + second
        observer.step(second, METRICS)
        observer._ended()  # what is written beside the steps is written
        status = read_status(folder)
        assert status is not None
        if status.step != before:
            reported.append(second)
            before = status.step
            assert status.examples_per_s == pytest.approx(8.0)
            assert status.loss == 1.0
    observer.close()
    assert reported == [5, 15, 35, 75, 135, 195]
    assert read_metrics(folder)["step"].to_pylist() == list(range(1, 196))
    assert folder.names(f"{LOGS}/*")


def test_a_loss_that_is_no_number_is_written_before_it_ends_the_run(
    observer: Observer, folder: Folder
) -> None:
    observer.begin()
    with pytest.raises(NotFiniteError, match="step 1: the loss is nan"):
        observer.step(1, {**METRICS, "lm_loss": np.float64("nan")})
    observer.flush("failed", "why")
    observer.close()
    status = read_status(folder)
    assert status is not None
    assert (status.state, status.reason, status.step, status.loss) == ("failed", "why", 1, None)
    assert json.loads(folder.read(STATUS_FILE) or b"")["compile_s"] == 3.0


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b"7"])
def test_what_is_no_status_is_none(folder: Folder, content: bytes) -> None:
    assert read_status(folder) is None
    folder.write(STATUS_FILE, content)
    assert read_status(folder) is None
