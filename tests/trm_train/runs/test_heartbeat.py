"""Each of several processes sends heartbeats, and `trm-train status` shows all of them while the run is active."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import run_here
from tests.trm_train.test_loop import EXPERIMENT, TINY
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_train.cli import main
from trm_train.hosts import Hosts
from trm_train.runs.record import make_record, read_record, run_folder, write_record
from trm_train.runs.status import (
    HEARTBEATS,
    STATUS_FILE,
    Status,
    condition,
    is_dead,
    read_heartbeats,
    read_status,
    status_bytes,
)
from trm_train.training.observe import Observer

STATUS = Status(
    state="running",
    step=7,
    total_steps=12,
    examples_per_s=10.0,
    loss=1.0,
    heartbeat=datetime.now(UTC).isoformat(timespec="milliseconds"),
    seconds=1.0,
    compile_s=1.0,
    host="a",
    process=1,
    started_at="2026-01-01T00:00:00.000+00:00",
)


@pytest.fixture
def run(small_layout: Layout) -> Iterator[Folder]:
    manifest = read_manifest(small_layout, "small")
    folder = run_folder(small_layout, EXPERIMENT, TINY)
    write_record(folder, make_record(EXPERIMENT, TINY, manifest))
    yield folder
    small_layout.store.delete_folder(folder.path)


def beat(folder: Folder, worker: int, step_s: float, data_wait_s: float) -> None:
    pace: Any = SimpleNamespace(
        dispatch_s=step_s, step=lambda _: {"step_s": step_s, "data_wait_s": data_wait_s}
    )
    observer = Observer(folder, read_record(folder), 5, pace, Hosts(worker, 2))
    for step in (6, 7):
        observer.step(step, {"lm_loss": 1.0})
    observer.flush("running")
    observer.close()


def test_a_heartbeat_says_step_and_waiting(run: Folder) -> None:
    beat(run, 1, 2.0, 0.5)
    beat(run, 0, 2.0, 0.0)
    first, second = read_heartbeats(run)
    assert (first.worker, first.workers, first.step, first.data_wait) == (0, 2, 7, 0.0)
    assert (second.worker, second.data_wait) == (1, 0.25)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"worker": 1}', b"\xff"])
def test_what_is_no_heartbeat_is_left_out(run: Folder, content: bytes) -> None:
    beat(run, 0, 1.0, 0.0)
    run.write(f"{HEARTBEATS}/worker-1.json", content)
    run.write(f"{HEARTBEATS}/other.json", content)
    assert [found.worker for found in read_heartbeats(run)] == [0]


def test_status_shows_every_process_of_a_run_under_way(run: Folder, small_layout: Layout) -> None:
    beat(run, 0, 2.0, 0.0)
    beat(run, 1, 2.0, 0.5)
    run.write(STATUS_FILE, status_bytes(dataclasses.replace(STATUS, workers=2)))
    shown = run_here(main, "status", "--root", small_layout.place).stdout
    assert "worker 0 of 2" in shown
    assert "worker 1 of 2" in shown
    assert "waits 25.0%" in shown
    (facts,) = json.loads(run_here(main, "status", "--json", "--root", small_layout.place).stdout)
    assert [worker["worker"] for worker in facts["heartbeats"]] == [0, 1]
    run.write(STATUS_FILE, status_bytes(dataclasses.replace(STATUS, workers=2, state="finished")))
    assert "worker" not in run_here(main, "status", "--root", small_layout.place).stdout


def test_the_status_of_one_process_is_as_it_was_before_there_were_several(run: Folder) -> None:
    assert b"workers" not in status_bytes(STATUS)
    for status in (STATUS, dataclasses.replace(STATUS, workers=2)):
        run.write(STATUS_FILE, status_bytes(status))
        assert read_status(run) == status


def test_a_run_whose_process_has_died_here_does_not_run() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    here = dataclasses.replace(STATUS, host=socket.gethostname(), process=int(ended.stdout))
    assert is_dead(here)
    assert condition(here, here.total_steps, datetime.now(UTC)) == "stalled"
    for change in ({"process": os.getpid()}, {"host": "elsewhere"}, {"process": 2**62}, {"state": "stopped"}):
        assert not is_dead(dataclasses.replace(here, **change))
