"""Every process ends after a failure of one of them, and those that share the cause name it."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.multiprocess.processes import RUN, ended, free_address, start, start_together
from tests.support.roots import root_with
from trm_data.errors import Exit
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import saved_steps
from trm_train.runs.record import list_runs
from trm_train.runs.status import read_status

ENDLESS = ["--total-steps", "100000", "--execution.checkpoint-every", "10", "--execution.validate-every", "0"]


@pytest.fixture
def root(small_layout: Layout, tmp_path: Path) -> Layout:
    return root_with("small", tmp_path, small_layout)


def wait_for_checkpoint(layout: Layout, step: int) -> Folder:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for run in list_runs(layout):
            if max(saved_steps(run), default=0) >= step:
                return run
        time.sleep(0.05)
    raise AssertionError("no checkpoint in 120 s")


def test_processes_of_different_configurations_are_named(root: Layout) -> None:
    place = ["--root", root.place, "--coordinator", free_address(), "--num-processes", "3"]
    rates = ["1e-4", "1e-4", "3e-4"]
    options = [*RUN, "--data.global-batch-size", "9", *place]
    done = ended(
        [
            start([*options, "--process-id", str(index), "--optim.lr", rate])
            for index, rate in enumerate(rates)
        ]
    )
    for one in done:
        assert one.returncode == Exit.ERROR
        assert "what is trained: the processes belong to different runs" in one.stderr
        assert "process 2 (" in one.stderr
        assert "optim.lr is 0.0003, of process 0" in one.stderr
    assert list_runs(root) == []  # nothing was written or compiled


@pytest.mark.slow
def test_processes_that_share_no_root_are_named(small_layout: Layout, tmp_path: Path) -> None:
    address, processes = free_address(), []
    for index in range(2):
        layout = root_with("small", tmp_path / str(index), small_layout)
        together = ["--coordinator", address, "--num-processes", "2", "--process-id", str(index)]
        processes.append(start([*RUN, "--root", layout.place, *together]))
    _, second = done = ended(processes)
    assert all(one.returncode for one in done)
    assert "does not see the files of process 0" in second.stderr


@pytest.mark.slow
def test_a_stop_signal_to_one_process_ends_all_with_a_checkpoint(root: Layout) -> None:
    processes = start_together(Path(root.place), 2, ENDLESS)
    run = wait_for_checkpoint(root, 10)
    processes[1].send_signal(signal.SIGTERM)
    for one in ended(processes):
        assert one.returncode == Exit.TERMINATED, one.stderr
    status = read_status(run)
    assert status is not None
    assert status.state == "stopped"
    assert saved_steps(run)[-1] == status.step


@pytest.mark.parametrize(
    ("killed", "code"), [pytest.param(0, -signal.SIGABRT, marks=pytest.mark.slow), (1, Exit.STALLED)]
)
def test_a_killed_process_ends_the_others(root: Layout, killed: int, code: int) -> None:
    """Process 0 takes the coordination service with it; jax then aborts the others."""
    processes = start_together(Path(root.place), 2, ENDLESS)
    run = wait_for_checkpoint(root, 10)
    processes[killed].kill()
    other = ended(processes)[1 - killed]
    assert other.returncode == code, other.stderr
    status = read_status(run)
    assert status is not None
    if killed == 1:
        assert "could not finish a step together" in other.stderr
        assert (status.state, status.workers) == ("failed", 2)
