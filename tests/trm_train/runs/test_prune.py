"""Checkpoints are pruned by policy, and runs removed with all their files; runs in training are left alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.trm_eval.conftest import Evaluated
from tests.trm_train.test_loop import run as run_again
from trm_data.errors import BusyError
from trm_data.storage.lease import locked
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import weights_steps
from trm_train.cli import main
from trm_train.errors import CheckpointError, ConfigError
from trm_train.metrics import read_metrics
from trm_train.runs.record import find_run
from trm_train.runs.resume import Policy, plan_pruning, prune_run


@pytest.fixture
def copied(trained: Evaluated, tmp_path: Path) -> tuple[Layout, Folder]:
    """A root with its own copy of an evaluated run."""
    for part in ("runs", "results", "datasets"):
        shutil.copytree(Path(trained.layout.place) / part, tmp_path / part)
    layout = resolve_root(tmp_path)
    return layout, find_run(layout, trained.record.run)


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


@pytest.mark.integration
def test_the_newest_and_the_best_stay(copied: tuple[Layout, Folder]) -> None:
    _, run = copied
    steps = weights_steps(run)
    assert len(steps) > 2
    rows = [
        row for row in read_metrics(run).to_pylist() if row["split"] == "validation" and row["step"] in steps
    ]
    best = max(rows, key=lambda row: (row["exact_count"] / row["count"], row["step"]))["step"]
    plan = plan_pruning(run, Policy())
    assert plan.kept == sorted({best, steps[-1]})
    assert plan.removed == [step for step in steps if step not in plan.kept]
    assert plan_pruning(run, Policy(best=False)).kept == steps[-1:]
    assert plan_pruning(run, Policy(last=len(steps))).removed == []
    assert plan_pruning(run, Policy(best=False, every=steps[0])).kept == [
        s for s in steps if s % steps[0] == 0
    ]
    before = run.store.size_bytes(run.path)
    assert weights_steps(run) == steps  # planning deletes nothing
    done = prune_run(run, Policy(best=False))
    assert weights_steps(run) == steps[-1:]
    assert before - run.store.size_bytes(run.path) == done.size_bytes > 0
    assert prune_run(run, Policy(best=False)).removed == []


@pytest.mark.integration
def test_what_a_run_goes_on_from_goes_only_when_asked(copied: tuple[Layout, Folder]) -> None:
    _, run = copied
    assert not plan_pruning(run, Policy()).resume_removed
    assert prune_run(run, Policy(resume=False)).resume_removed
    assert run.within("checkpoints/resume").names("*/commit_success.txt") == []
    assert weights_steps(run)


@pytest.mark.integration
def test_a_run_that_is_trained_is_left_alone(copied: tuple[Layout, Folder]) -> None:
    _, run = copied
    steps = weights_steps(run)
    with locked(run, "busy"), pytest.raises(BusyError, match="is being trained; wait for it, or stop it"):
        prune_run(run, Policy())
    assert weights_steps(run) == steps


def test_a_policy_that_keeps_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="--keep-last at least 1, got 0"):
        Policy(last=0).check()


@pytest.mark.integration
def test_the_command_asks_and_says_what_it_does(
    copied: tuple[Layout, Folder], capsys: pytest.CaptureFixture[str]
) -> None:
    layout, run = copied
    steps = weights_steps(run)
    code, out, _ = command(capsys, "prune", "--dry-run", "--json", "--no-best", "--root", layout.place)
    assert (code, json.loads(out)[0]["removed"]) == (0, steps[:-1])
    code, out, err = command(capsys, "prune", "--no-best", "--root", layout.place)
    assert code == 2
    assert "stdin is not a terminal. Add --yes to remove that" in err
    assert weights_steps(run) == steps
    code, out, _ = command(capsys, "prune", run.name, "--no-best", "--yes", "--root", layout.place)
    assert code == 0
    assert "freed" in out
    assert weights_steps(run) == steps[-1:]
    assert "nothing to remove" in command(capsys, "prune", "--no-best", "--yes", "--root", layout.place)[1]
    assert command(capsys, "prune", "nothing", "--root", layout.place)[0] == 2


def test_a_finished_run_without_what_it_goes_on_from_keeps_its_metrics(copied: tuple[Layout, Folder]) -> None:
    layout, run = copied
    prune_run(run, Policy(resume=False))
    before = read_metrics(run)
    steps = weights_steps(run)
    status = run.read("status.json")
    with pytest.raises(CheckpointError, match="has finished, and its resume state was pruned"):
        run_again(layout)
    assert read_metrics(run).equals(before)
    assert weights_steps(run) == steps
    assert run.read("status.json") == status


def test_the_best_is_not_pruned_where_metrics_are_gone(
    copied: tuple[Layout, Folder], capsys: pytest.CaptureFixture[str]
) -> None:
    layout, run = copied
    steps = weights_steps(run)
    part = next(Path(run.uri("metrics")).glob("000000001-*.parquet"))
    part.unlink()
    code, _, err = command(capsys, "prune", "--yes", "--root", layout.place)
    assert code == 1
    assert "left out" in err
    assert "a part is missing" in err
    assert weights_steps(run) == steps
