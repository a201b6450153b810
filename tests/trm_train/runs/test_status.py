"""`status.json`: its format, and runs whose process has ended."""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from trm_data.storage.root import resolve_root
from trm_train.runs.status import STATUS_FILE, Status, condition, is_dead, read_status, status_bytes

BIN = Path(sys.executable).parent
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


def test_the_status_of_one_process_is_as_it_was_before_there_were_several(tmp_path: Path) -> None:
    run = resolve_root(tmp_path).runs.within("run")
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
