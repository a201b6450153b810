"""Processes that train one run together get the result of one process, and resume from each other's checkpoints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conftest import run_here
from tests.multiprocess.processes import RUN, train_together
from tests.support.roots import root_with
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import saved_steps
from trm_train.cli import main
from trm_train.metrics import read_metrics
from trm_train.runs.record import list_runs
from trm_train.runs.status import read_status

FIRST_STEP, LATER_STEPS = 1e-6, 1e-4
"""Maximum relative differences of the loss due to rounding, at the first step and over 20, at a rate of 1e-4."""
SIX = ["--total-steps", "6", "--execution.validate-every", "6", "--execution.checkpoint-every", "3"]
TWENTY = ["--total-steps", "20", "--execution.validate-every", "10", "--execution.checkpoint-every", "10"]


def train_alone(layout: Layout, options: list[str]) -> None:
    done = run_here(main, *RUN, *options, "--root", str(layout.machine))
    assert done.returncode == 0, done.stderr


def only_run(layout: Layout) -> Folder:
    (folder,) = list_runs(layout)
    return folder


def check_same_losses(layout: Layout, reference: Layout) -> None:
    rows, wanted = (read_metrics(only_run(one)).to_pylist() for one in (layout, reference))
    assert [(row["step"], row["split"]) for row in rows] == [(row["step"], row["split"]) for row in wanted]
    for column in ("lm_loss_sum", "q_halt_loss_sum"):
        ours, theirs = (np.array([row[column] for row in table]) for table in (rows, wanted))
        difference = np.abs(ours - theirs) / np.abs(theirs)
        assert difference[0] <= FIRST_STEP, (column, difference)
        assert difference.max() <= LATER_STEPS, (column, difference)
    for column in ("count", "rows_loaded", "rows_digest", "steps_sum", "global_batch_size"):
        assert [row[column] for row in rows] == [row[column] for row in wanted], column


def test_two_processes_learn_what_one_learns(small_layout: Layout, tmp_path: Path) -> None:
    alone, together = (root_with("small", tmp_path / name, small_layout) for name in ("alone", "together"))
    first, second = train_together(tmp_path / "together", 2, SIX)
    train_alone(alone, SIX)
    check_same_losses(together, alone)
    run = only_run(together)
    assert run.name == only_run(alone).name
    assert saved_steps(run) == [3, 6]
    assert "2 of 2 processes joined" in first.stderr
    assert "2 of 2 processes joined" in second.stderr
    assert "Traceback" not in first.stderr + second.stderr
    assert "finished, 6 steps" in first.stdout
    assert second.stdout == ""
    status = read_status(run)
    assert status is not None
    assert (status.state, status.step, status.workers) == ("finished", 6, 2)
    logs = [name.split("-")[1] for name in run.names("logs/*")]
    assert set(logs) == {"0", "1"}


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_twenty_steps_stay_within_rounding(small_layout: Layout, tmp_path: Path, count: int) -> None:
    """Including processes that share rows because the axis `model` spans them."""
    alone, together = (root_with("small", tmp_path / name, small_layout) for name in ("alone", "together"))
    train_together(tmp_path / "together", count, [*TWENTY, "--execution.model-parallel", "2"])
    train_alone(alone, TWENTY)
    check_same_losses(together, alone)


@pytest.mark.slow
def test_several_steps_a_dispatch_on_rows_that_devices_hold(small_layout: Layout, tmp_path: Path) -> None:
    alone, together = (root_with("small", tmp_path / name, small_layout) for name in ("alone", "together"))
    several = ["--execution.steps-per-dispatch", "4", "--execution.device-rows"]
    train_together(tmp_path / "together", 2, [*TWENTY, *several])
    train_alone(alone, TWENTY)
    check_same_losses(together, alone)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_a_run_goes_on_with_another_number_of_processes(
    small_layout: Layout, tmp_path: Path, before: int, after: int
) -> None:
    """Half of the run, then all of it; `--extend` keeps its name and its rates."""
    alone, changing = (root_with("small", tmp_path / name, small_layout) for name in ("alone", "changing"))
    half = [*SIX[2:], "--total-steps", "10", "--optim.lr-min-ratio", "1.0"]
    for count, more in ((before, []), (after, ["--extend", "20"])):
        if count == 1:
            train_alone(changing, half + more)
        else:
            train_together(tmp_path / "changing", count, half + more)
    train_alone(alone, half)
    train_alone(alone, [*half, "--extend", "20"])
    check_same_losses(changing, alone)
    status = read_status(only_run(changing))
    assert status is not None
    assert (status.step, status.workers) == (20, after)


@pytest.mark.slow
def test_processes_save_after_every_step(small_layout: Layout, tmp_path: Path) -> None:
    """Overlapping saves would mix up the messages of the processes about them."""
    layout = root_with("small", tmp_path, small_layout)
    often = ["--total-steps", "20", "--execution.validate-every", "0", "--execution.checkpoint-every", "1"]
    train_together(tmp_path, 2, often)
    assert saved_steps(only_run(layout)) == list(range(1, 21))
