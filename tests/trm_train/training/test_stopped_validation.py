"""A run that is asked to stop during validation interrupts it, and validates when it resumes."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import run_here
from tests.multiprocess.processes import RUN
from tests.support.roots import root_with
from trm_data.errors import Exit
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import saved_steps
from trm_train.cli import main
from trm_train.metrics import CLOCKED, read_metrics
from trm_train.runs.record import list_runs
from trm_train.runs.status import read_status
from trm_train.training import loop

OPTIONS = ["--total-steps", "6", "--execution.validate-every", "2", "--execution.checkpoint-every", "6"]


def train(layout: Layout, code: int = Exit.DONE) -> Folder:
    done = run_here(main, *RUN, *OPTIONS, "--root", layout.place)
    assert done.returncode == code, done.stderr
    (run,) = list_runs(layout)
    return run


def rows_of(run: Folder) -> list[dict[str, Any]]:
    rows = read_metrics(run).drop_columns(list(CLOCKED)).to_pylist()
    return sorted(rows, key=lambda row: (row["step"], row["split"]))


@pytest.mark.parametrize("validation", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_it_is_given_up_and_made_up_for(
    small_layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, validation: int
) -> None:
    undisturbed, stopped = (
        root_with("small", tmp_path / name, small_layout) for name in ("undisturbed", "stopped")
    )
    wanted = rows_of(train(undisturbed))
    taken, real = iter(range(3)), loop.validate

    def interrupted(*arguments: Any, beat: Any, **options: Any) -> Any:
        now = next(taken) == validation

        def asked() -> None:
            if now:
                signal.raise_signal(signal.SIGTERM)
            beat()

        return real(*arguments, beat=asked, **options)

    step = 2 * (validation + 1)
    with monkeypatch.context() as patched:
        patched.setattr(loop, "validate", interrupted)
        run = train(stopped, Exit.TERMINATED)
    status = read_status(run)
    assert status is not None
    assert (status.state, status.step) == ("stopped", step)
    assert saved_steps(run) == [step]
    validated = [row["step"] for row in rows_of(run) if row["split"] == "validation"]
    assert validated == list(range(2, step, 2))
    assert rows_of(train(stopped)) == wanted
    status = read_status(run)
    assert status is not None
    assert (status.state, status.step) == ("finished", 6)
    again = run_here(main, *RUN, *OPTIONS, "--root", stopped.place)
    assert "already finished" in again.stdout
    assert rows_of(run) == wanted
