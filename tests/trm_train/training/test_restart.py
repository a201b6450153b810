"""`--restarts`: a run whose process is killed resumes in another process; a run that is asked to stop does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.multiprocess.processes import RUN
from tests.support.roots import root_with
from trm_data.command import Exit
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import saved_steps
from trm_train.commands import restart
from trm_train.metrics.table import read_metrics
from trm_train.runs.record import list_runs
from trm_train.runs.status import read_status

PROGRAM = "import sys; from trm_train.cli import main; main(sys.argv[1:])"
LONG = ["--execution.checkpoint-every", "10", "--execution.validate-every", "0", "--total-steps"]


@pytest.fixture
def layout(small_layout: Layout, tmp_path: Path) -> Layout:
    return root_with("small", tmp_path, small_layout)


def start(layout: Layout, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, *RUN, "--root", layout.place, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def trained(layout: Layout, step: int, other_than: int = 0) -> tuple[Folder, int]:
    """Return the run and its training process, once a process other than `other_than` has saved a step."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for run in list_runs(layout):
            status = read_status(run)
            saved = max(saved_steps(run), default=0)
            if status is not None and status.process != other_than and saved >= step:
                return run, status.process
        time.sleep(0.05)
    raise AssertionError("no checkpoint in 120 s")


def test_a_run_that_is_killed_starts_again_by_itself(layout: Layout) -> None:
    with start(layout, *LONG, "300", "--restarts", "2", "--resume", "never") as asked:
        run, process = trained(layout, 10)
        os.kill(process, signal.SIGKILL)
        saved = max(saved_steps(run))
        out, err = asked.communicate(timeout=200)
    assert asked.returncode == Exit.DONE, err
    assert "ended (by SIGKILL); starting again, 2 of 2 restarts left" in err
    assert saved >= 10
    assert "finished, 300 steps" in out
    assert [row["step"] for row in read_metrics(run).to_pylist()] == list(range(1, 301))
    assert len(set(run.names("logs/*"))) >= 2


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_asked_to_stop_is_not_started_again(layout: Layout, sent: signal.Signals) -> None:
    with start(layout, *LONG, "1000000", "--restarts", "2") as asked:
        run, _ = trained(layout, 10)
        asked.send_signal(sent)
        out, err = asked.communicate(timeout=600)
    assert asked.returncode == 128 + sent, err
    assert "starting again" not in err
    assert "with a checkpoint; the same command resumes" in out
    status = read_status(run)
    assert status is not None
    assert status.state == "stopped"


def test_a_run_ends_with_what_would_start_it_again(layout: Layout) -> None:
    with start(layout, *LONG, "1000000", "--restarts", "2") as killed:
        run, _ = trained(layout, 10)
        killed.kill()
        _, err = killed.communicate(timeout=600)  # the training process writes there too
    status = read_status(run)
    assert status is not None
    assert (status.state, saved_steps(run)[-1]) == ("stopped", status.step), err


def test_bad_input_is_no_reason_to_start_again(layout: Layout) -> None:
    with start(layout, *LONG, "100", "--restarts", "2", "--data.dataset", "nothing") as asked:
        _, err = asked.communicate(timeout=600)
    assert asked.returncode == Exit.ERROR
    assert "starting again" not in err
    with start(layout, *LONG, "100", "--restarts", "-1") as asked:
        _, err = asked.communicate(timeout=600)
    assert asked.returncode == Exit.ERROR
    assert "--restarts -1: expected at least 0" in err


KILLED = """
import os, signal, sys
from pathlib import Path
said = Path(sys.argv[1])
first = not said.exists()
said.open("a").write(" ".join(sys.argv[2:]) + "\\n")
if first:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_was_killed_before_it_threw_anything_away_does_so_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start has `--resume never` and the same idempotency token, so the run is discarded only once."""
    monkeypatch.setattr(restart, "PROGRAM", KILLED)
    monkeypatch.setattr(restart, "WAIT_S", 0.0)
    said = tmp_path / "said"
    assert restart.train_with_restarts([str(said), "run", "x", "--resume", "never"], 2, lambda _: None) == 0
    first, second = (line.split() for line in said.read_text().splitlines())
    assert first == second
    assert first[:5] == ["run", "x", "--resume", "never", "--anew-once"]
    assert restart.once(["--resume", "never", "--anew-once", "w"]) == ()
    assert restart.once(["--resume", "auto"]) == ()
