"""A run reports soon after its first step, then less and less often; an invalid status is ignored."""

from __future__ import annotations

import faulthandler
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.conftest import as_users_run_it
from tests.multiprocess.processes import RUN
from tests.support.roots import root_with
from tests.trm_train.test_loop import EXPERIMENT, TINY
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder, Lease
from trm_train.console import RunConsole
from trm_train.errors import NotFiniteError
from trm_train.hosts import Hosts
from trm_train.metrics import read_metrics
from trm_train.runs.record import LOGS, make_record
from trm_train.runs.status import STATUS_FILE, read_status
from trm_train.training import observe
from trm_train.training.observe import Observer, Pace, StallTimer

METRICS = {
    "count": np.int64(2),
    "halted_slots": np.int64(2),
    "accuracy": np.float64(1.5),
    "exact_accuracy": np.int64(1),
    "q_halt_accuracy": np.int64(1),
    "steps": np.int64(4),
    "steps_squared": np.int64(10),
    "grad_norm": np.float64(3.0),
    "update_norm": np.float64(0.5),
    "lm_loss": np.float64(8.0),
    "q_halt_loss": np.float64(4.0),
}


class Clock:
    """Replacement for `time.perf_counter`."""

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


class Told:
    """A wandb run that keeps its messages."""

    def __init__(self) -> None:
        self.logged: list[dict[str, float]] = []
        self.alerts: list[tuple[str, str]] = []

    def log(self, metrics: dict[str, float], step: int) -> None:
        self.logged.append({"step": step, **metrics})

    def alert(self, title: str, text: str) -> None:
        self.alerts.append((title, text))


@pytest.fixture
def tracker() -> Told:
    return Told()


@pytest.fixture
def observer(small_layout: Layout, folder: Folder, clock: Clock, tracker: Told) -> Observer:
    return observer_of(small_layout, folder, Hosts(), tracker, Lease())


def observer_of(
    layout: Layout, folder: Folder, hosts: Hosts, tracker: Told | None, lease: Lease | None
) -> Observer:
    record = make_record(EXPERIMENT, TINY, read_manifest(layout, "small"))
    compiled: Any = SimpleNamespace(seconds=3.0, num_parameters=1, micro_batches=1)
    console = RunConsole(TINY, quiet=True)
    rates = np.full(1000, 1e-3)
    pace = Pace(lambda _: 4e6, 1e7)
    return Observer(folder, record, 0, pace, hosts, rates, compiled, console, tracker, lease)  # type: ignore[arg-type]


def written(observer: Observer) -> None:
    """Wait until the background report is written."""
    if observer._report is not None:
        observer._report.result()


def test_reports_come_soon_and_then_less_often(observer: Observer, folder: Folder, clock: Clock) -> None:
    observer.begin()
    reported, before = [], 0
    for second in range(1, 200):
        clock.now = 100.0 + second
        observer.step(second, METRICS)
        written(observer)
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


def test_each_process_logs_its_share_of_waiting_for_batches(
    small_layout: Layout, folder: Folder, clock: Clock
) -> None:
    observer = observer_of(small_layout, folder, Hosts(1, 2), None, None)
    observer.begin()
    for step in range(1, 1 + TINY.execution.log_every):
        with observer.pace.waiting():
            clock.now += 0.5
        clock.now += 1.5
        observer.step(step, METRICS)
    observer.flush("running")
    observer.close()
    assert "waits 25.0%" in "".join(str(folder.read(log)) for log in folder.names(f"{LOGS}/worker-1-*.log"))
    assert not folder.names("metrics/*")
    assert read_status(folder) is None


def test_the_first_line_comes_after_ten_seconds_of_slow_steps(
    observer: Observer, clock: Clock, tracker: Told
) -> None:
    observer.begin()
    for step in range(1, 1 + TINY.execution.log_every):
        clock.now += 4.0
        observer.step(step, METRICS)
    observer.close()
    assert [logged["step"] for logged in tracker.logged] == [3, TINY.execution.log_every]


def test_rows_say_how_long_a_step_took_and_what_it_used(
    observer: Observer, folder: Folder, clock: Clock, tracker: Told
) -> None:
    """8 slots per step, 4 MFLOP per step, a peak of 10 MFLOP/s."""
    observer.begin()
    for step in range(1, 6):
        with observer.pace.waiting():
            clock.now += 0.5
        clock.now += 1.5
        observer.step(step, METRICS)
        with observer.pace.aside():
            clock.now += 0.4
    observer.flush("running")
    observer.close()
    rows = read_metrics(folder).to_pylist()
    assert [(row["step_s"], row["data_wait_s"]) for row in rows] == [(2.0, 0.5)] * 5
    assert {(row["model_flops"], row["peak_flops_per_s"]) for row in rows} == {(4e6, 1e7)}
    assert {(row["grad_norm"], row["update_norm"], row["loss_scale"]) for row in rows} == {(3.0, 0.5, None)}
    (shown,) = tracker.logged
    expected = {"step_s": 2.0, "examples_per_s": 4.0, "data_wait": 0.25, "mfu": 0.2}
    expected |= {"grad_norm": 3.0, "update_norm": 0.5, "steps": 2.0, "steps_std": 1.0}
    assert {name: shown[f"train/{name}"] for name in expected} == pytest.approx(expected)


def test_a_loss_that_is_no_number_is_written_before_it_ends_the_run(
    observer: Observer, folder: Folder, tracker: Told
) -> None:
    observer.begin()
    observer.step(1, METRICS)
    with pytest.raises(NotFiniteError, match=r"step 2: the loss is nan \(loss of steps 1 to 2: 1, nan\)"):
        observer.step(2, {**METRICS, "lm_loss": np.float64("nan")})
    assert [title for title, _ in tracker.alerts] == ["no number"]
    observer.flush("failed", "why")
    observer.close()
    status = read_status(folder)
    assert status is not None
    assert (status.state, status.reason, status.step, status.loss) == ("failed", "why", 2, None)
    assert json.loads(folder.read(STATUS_FILE) or b"")["compile_s"] == 3.0


def test_parameters_that_are_no_numbers_end_a_run_before_they_are_saved(observer: Observer) -> None:
    observer.begin()
    with pytest.raises(
        NotFiniteError, match=r"step 1: the change of the parameters is inf \(loss of steps 1"
    ):
        observer.step(1, {**METRICS, "update_norm": np.float32("inf")})
    observer.close()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b"7"])
def test_what_is_no_status_is_none(folder: Folder, content: bytes) -> None:
    assert read_status(folder) is None
    folder.write(STATUS_FILE, content)
    assert read_status(folder) is None


def test_every_step_starts_the_time_limit_again_and_a_task_has_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[float] = []
    monkeypatch.setattr(
        faulthandler, "dump_traceback_later", lambda limit_s, exit, file: limits.append(limit_s)
    )
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: limits.append(0.0))
    timer = StallTimer(600.0)
    for step_s in (10.0, 100.0, 1.0):  # 20 times the longest step, if that is longer
        timer.beat(step_s)
    with timer.task(5.0):
        assert limits == [600.0, 2000.0, 2000.0, 5.0]
    with timer.task(0.0):
        pass
    timer.close()
    StallTimer(0.0).beat(100.0)
    assert limits == [600.0, 2000.0, 2000.0, 5.0, 2000.0, 0.0, 2000.0, 0.0, 0.0]


STUCK = """
import sys, time
from trm_data.loader.pipeline import BatchLoader
from trm_train.cli import main

take = BatchLoader.__next__
def next_or_never(self):
    if self.step == 3:
        time.sleep(600)
    return take(self)
BatchLoader.__next__ = next_or_never
main(sys.argv[1:])
"""


@pytest.mark.integration
def test_a_process_without_progress_ends_with_tracebacks_and_the_same_command_resumes(
    small_layout: Layout, tmp_path: Path
) -> None:
    layout = root_with("small", tmp_path, small_layout)
    options = [*RUN, "--root", layout.place, "--total-steps", "6", "--execution.checkpoint-every", "2"]
    options += ["--execution.validate-every", "0"]

    def run(program: str, *more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "ignore", "-c", program, *options, *more]
        return subprocess.run(command, capture_output=True, text=True, env=as_users_run_it(), timeout=600)

    stuck = run(STUCK, "--execution.stall-s", "0.5")
    assert stuck.returncode == 1, stuck.stderr
    assert "Timeout (0:00:" in stuck.stderr
    assert "next_or_never" in stuck.stderr
    resumed = run("import sys; from trm_train.cli import main; main(sys.argv[1:])")
    assert resumed.returncode == 0, resumed.stderr
    assert "resumes from step 2" in resumed.stderr
