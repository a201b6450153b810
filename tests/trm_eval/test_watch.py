"""A run in training is followed to its end; every checkpoint is evaluated once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import run_here
from tests.support.roots import root_with
from tests.trm_eval.conftest import Evaluated
from tests.trm_train.test_loop import TINY, run
from trm_eval.cli import main
from trm_eval.evaluation import prepare
from trm_eval.evaluation.prepare import watch_checkpoints


def test_checkpoints_come_as_they_are_saved(evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls while it trains; a checkpoint saved between the last poll and the end is not missed."""
    states = iter(["new", "running", "running", "running", "done", "done"])
    saved = iter([[], [4], [4], [4, 8], [4, 8, 12], [4, 8, 12]])
    now: list[int] = []

    def looked(*_: object) -> str:
        now[:] = next(saved)
        return next(states)

    monkeypatch.setattr(prepare, "condition", looked)
    monkeypatch.setattr(prepare, "weights_steps", lambda _: list(now))
    pauses: list[float] = []
    ended: list[str] = []
    assert list(watch_checkpoints(evaluated.folder, ended.append, pause=pauses.append)) == [4, 8, 12]
    assert pauses == [prepare.POLL_S] * 2
    assert ended == ["done"]


def test_a_checkpoint_that_training_removed_meanwhile_is_passed_over(
    evaluated: Evaluated, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = iter([[4, 8], [4, 8], [8, 12], [8, 12], [8, 12], [8, 12]])
    states = iter(["running", "done", "done"])
    monkeypatch.setattr(prepare, "condition", lambda *_: next(states))
    monkeypatch.setattr(prepare, "weights_steps", lambda _: next(saved))
    assert list(watch_checkpoints(evaluated.folder, lambda _: None, pause=lambda _: None)) == [4, 8, 12]
    gone = iter([[4, 8], [4, 8], [12], [12], [12], [12]])
    states = iter(["running", "done", "done"])
    monkeypatch.setattr(prepare, "condition", lambda *_: next(states))
    monkeypatch.setattr(prepare, "weights_steps", lambda _: next(gone))
    assert list(watch_checkpoints(evaluated.folder, lambda _: None, pause=lambda _: None)) == [4, 12]


def test_a_run_that_has_ended_is_evaluated_once(evaluated: Evaluated, tmp_path: Path) -> None:
    layout = root_with("small", tmp_path, evaluated.layout)
    trained = run(layout, TINY)
    done = run_here(main, "run", "tiny", "--checkpoint", "watch", "--root", layout.place)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("exact accuracy") == 3
    assert done.stdout.endswith(f"{trained.record.run}: done; all its checkpoints are evaluated\n")
