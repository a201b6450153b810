"""A run keeps its tracker id on every machine that resumes it; another root, or starting over, gets another id."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trm_eval.conftest import Evaluated
from trm_data.storage.local import LocalStore
from trm_data.storage.store import Folder
from trm_train.runs.resume import remove_parts
from trm_train.training.tracking import start_wandb, tracking_id


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(LocalStore(tmp_path / "root"), "runs/group/name/run")


def test_an_id_is_drawn_once(folder: Folder, tmp_path: Path) -> None:
    first = tracking_id(folder, "run-12345678-s0")
    assert first.startswith("run-12345678-s0-")
    assert tracking_id(folder, "run-12345678-s0") == first
    elsewhere = Folder(LocalStore(tmp_path / "other"), "runs/group/name/run")
    assert tracking_id(elsewhere, "run-12345678-s0") != first


def test_a_run_that_begins_anew_has_another(evaluated: Evaluated, folder: Folder) -> None:
    first = tracking_id(folder, "run")
    remove_parts(evaluated.layout, folder, [])
    assert tracking_id(folder, "run") != first


@pytest.mark.integration
def test_wandb_goes_on_under_the_id(evaluated: Evaluated, folder: Folder) -> None:
    ids = []
    for step in (1, 2):
        tracker = start_wandb(folder, evaluated.record)
        tracker.log({"train/lm_loss": 1.0}, step=step)
        tracker.finish()
        ids.append(tracker.id)
    assert ids == [tracking_id(folder, evaluated.record.run)] * 2
