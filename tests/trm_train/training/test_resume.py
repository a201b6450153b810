"""Starts after kills at awkward moments: half-copied checkpoints, half-discarded runs, a stale status."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.roots import root_with
from tests.trm_train.test_loop import final_state, run
from trm_data.storage.root import Layout, resolve_root
from trm_train.checkpoint.manager import saved_steps
from trm_train.runs.resume import FORGETTING
from trm_train.runs.status import STATUS_FILE, read_status
from trm_train.training.start import TrainResult


@pytest.fixture(scope="module")
def finished(small_layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> TrainResult:
    layout = root_with("small", tmp_path_factory.mktemp("resume"), small_layout)
    return run(layout)


@pytest.fixture
def layout(finished: TrainResult, tmp_path: Path) -> Layout:
    """A copy of the finished run's root."""
    source = Path(finished.folder.store.place)
    shutil.copytree(source, tmp_path / "root")
    return resolve_root(tmp_path / "root")


def folder_of(layout: Layout, finished: TrainResult):
    return layout.runs.within(finished.folder.path.removeprefix("runs/"))


@pytest.mark.integration
def test_a_checkpoint_that_was_half_copied_is_not_taken_for_one(
    layout: Layout, finished: TrainResult
) -> None:
    folder = folder_of(layout, finished)
    for kind in ("resume", "weights"):
        step = Path(folder.uri(f"checkpoints/{kind}/12"))
        (step / "commit_success.txt").unlink()
        shutil.rmtree(step / "state")
    result = run(layout)
    assert result.started_at == 8
    assert final_state(result) == final_state(finished)
    assert saved_steps(folder)[-1] == 12


@pytest.mark.integration
def test_a_run_that_was_half_forgotten_starts_anew(layout: Layout, finished: TrainResult) -> None:
    folder = folder_of(layout, finished)
    folder.write(FORGETTING, b"")
    result = run(layout)
    assert result.started_at == 0
    assert final_state(result) == final_state(finished)
    assert folder.read(FORGETTING) is None


@pytest.mark.integration
def test_a_finished_run_whose_last_word_was_lost_says_it_again(layout: Layout, finished: TrainResult) -> None:
    folder = folder_of(layout, finished)
    status = json.loads(folder.read(STATUS_FILE) or b"")
    folder.write(STATUS_FILE, json.dumps(status | {"state": "running"}).encode())
    assert run(layout).started_at == 12
    found = read_status(folder)
    assert found is not None
    assert (found.state, found.step) == ("finished", 12)
    logs = folder.names("logs/*")
    run(layout)  # nothing new to report
    assert folder.names("logs/*") == logs


@pytest.mark.integration
def test_an_error_of_any_kind_is_left_in_the_status(
    layout: Layout, finished: TrainResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trm_train.training import loop

    def broken(*_: object) -> None:
        raise RuntimeError("out of memory, say")

    folder = folder_of(layout, finished)
    for kind in ("resume", "weights"):
        shutil.rmtree(folder.uri(f"checkpoints/{kind}/12"))
    monkeypatch.setattr(loop, "validate_now", broken)
    with pytest.raises(RuntimeError, match="out of memory"):
        run(layout)
    found = read_status(folder)
    assert found is not None
    assert (found.state, found.reason) == ("failed", "out of memory, say")


@pytest.mark.integration
def test_a_resume_with_another_number_of_threads_is_noted(
    layout: Layout, finished: TrainResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(layout, finished)
    for kind in ("resume", "weights"):
        shutil.rmtree(Path(folder.uri(f"checkpoints/{kind}/12")))
    began = finished.record.cpu_threads
    assert began is not None
    monkeypatch.setenv("NPROC", str(began + 5))
    result = run(layout)
    assert result.started_at == 8
    assert result.record.cpu_threads == began
    log = "".join((folder.read(name) or b"").decode() for name in folder.names("logs/*"))
    assert f"began with {began} CPU threads, resumes with {began + 5}" in log
