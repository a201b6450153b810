"""Training and evaluation on a bucket: bitwise equal to local ones, through kills, other machines and faults."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import trm_data.storage.gcs
import trm_data.storage.lease
import trm_eval
from tests.gcs.conftest import URL
from tests.gcs.server import GcsServer
from tests.support.roots import copy_root, root_with
from tests.trm_train.test_loop import EXPERIMENT, TINY, final_state, metrics_without_clock, run
from trm_data.errors import BucketError, BusyError
from trm_data.storage.lease import leased
from trm_data.storage.root import Layout, resolve_root
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest
from trm_eval.predictions import PredictionWriter
from trm_eval.show import answered_puzzles, evaluation_of
from trm_eval.tables.query import query_results
from trm_train.checkpoint.manager import weights_steps
from trm_train.runs.record import find_run, run_folder
from trm_train.runs.status import read_status
from trm_train.training.start import TrainResult

Machine = Callable[[str], Layout]
SHORT = dataclasses.replace(TINY, execution=dataclasses.replace(TINY.execution, checkpoint_every=4))


@pytest.fixture(scope="module")
def local(small_layout: Layout, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return root_with("small", tmp_path_factory.mktemp("local"), small_layout)


@pytest.fixture(scope="module")
def undisturbed(local: Layout) -> TrainResult:
    return run(local)


@pytest.fixture
def root(server: GcsServer, machine: Machine, local: Layout) -> Layout:
    layout = machine("first")
    copy_root(local, layout, "datasets/small")
    return layout


PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
from tests.trm_train.test_loop import run
from trm_data.storage.atomic import with_digest
from trm_data.storage.root import resolve_root
print("ready", flush=True)
print(run(resolve_root({url!r})).step)
"""


def start(machine: Path) -> subprocess.Popen:
    program = PROGRAM.format(tests=str(Path(__file__).parents[2]), url=URL)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TRM_CACHE": str(machine)}
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment)


def test_a_run_on_a_bucket_ends_as_a_local_one_and_is_read_from_there(
    root: Layout, undisturbed: TrainResult, machine: Machine
) -> None:
    result = run(root)
    assert result.finished
    assert final_state(result) == final_state(undisturbed)
    assert metrics_without_clock(result.folder) == metrics_without_clock(undisturbed.folder)
    assert result.folder.place.startswith(URL)
    again = machine("second")
    folder = find_run(again, "tiny")
    assert find_run(again, f"{folder.place}/").uri() == folder.uri()
    status = read_status(folder)
    assert status is not None
    assert (status.state, status.step, status.total_steps) == ("finished", 12, 12)
    logs = b"".join(folder.read(name) or b"" for name in folder.names("logs/*"))
    assert b"begins; gs://" in logs
    assert b"validation: exact" in logs
    query = "SELECT step, exact_accuracy FROM train_metrics WHERE split = 'train' ORDER BY step"
    assert [row[0] for row in query_results(again, query).rows] == list(range(1, 13))  # evaluated or not
    evaluated = evaluate_run(again, folder, EvalRequest())
    assert evaluated.row["count"] == 12
    third = machine("third")
    assert query_results(third, "SELECT count(*) FROM predictions").rows == [(12,)]
    frame = trm_eval.sql("SELECT run, state, step FROM runs", third)
    assert frame.rows() == [(folder.name, "finished", 12)]
    assert trm_eval.sql("SELECT count_if(exact) FROM predictions", URL).item() == evaluated.row["exact_count"]
    assert trm_eval.sql("FROM train_metrics WHERE split = 'train'", third).height == 12
    assert len(answered_puzzles(third, evaluation_of(third, folder.name, None), count=2)) == 2


def test_a_killed_run_goes_on_at_another_machine(
    root: Layout,
    undisturbed: TrainResult,
    machine: Machine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Resume with another cache folder, once the lease of the killed process has expired."""
    monkeypatch.setattr(trm_data.storage.lease, "LEASE_S", 1.5)
    whole = "*/*/*/checkpoints/resume/*/commit_success.txt"
    with start(tmp_path / "victim") as process:
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline and not root.runs.names(whole):
            time.sleep(0.05)
        process.kill()
    result = run(machine("second"))
    assert result.finished
    assert result.started_at >= 4
    assert final_state(result) == final_state(undisturbed)
    assert metrics_without_clock(result.folder) == metrics_without_clock(undisturbed.folder)


def test_a_run_that_lives_is_left_alone(
    root: Layout, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trm_data.storage.lease, "BEAT_S", 0.1)
    monkeypatch.setattr(trm_data.storage.lease, "POLL_S", 0.05)
    folder = run_folder(root, EXPERIMENT, TINY)
    with (
        leased(folder, "a run"),
        pytest.raises(BusyError, match=rf"working on run {folder.name} \(.*process {os.getpid()}"),
    ):
        run(machine("second"))


def test_a_run_that_lost_its_lease_writes_nothing_more(
    root: Layout, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was suspended, and another machine took over and resumed: the first one ends, and each step exists once."""
    from trm_train.training import loop

    taken: list[object] = []

    def slow(run_, state, step, save=loop.save):
        save(run_, state, step)
        if step == 4:
            folder = run_folder(root, EXPERIMENT, TINY)
            claim = folder.read(".building")
            assert claim is not None
            folder.delete(".building")
            folder.write(".building", b"{}")
            taken.append(claim)

    monkeypatch.setattr(loop, "save", slow)
    with pytest.raises(BusyError, match="another machine took over"):
        run(root)
    assert taken
    assert weights_steps(run_folder(root, EXPERIMENT, TINY)) == [4]


def lose_after_step_4(server: GcsServer, loop: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the checkpoint at step 4 on, make the bucket refuse every request."""

    def lose(run_, state, step, save=loop.save) -> bool:
        saved = save(run_, state, step)
        if step == 4:
            run_.checkpoints.wait()
            server.faults.denied = 10_000
        return saved

    monkeypatch.setattr(loop, "save", lose)


def test_a_run_continues_while_the_bucket_is_away_and_saves_at_the_next_checkpoint(
    root: Layout, undisturbed: TrainResult, server: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trm_train.training import loop

    lose_after_step_4(server, loop, monkeypatch)

    def come_back(run_, stop, state, step, *, saved, finish=loop.finish_saving) -> None:
        assert not saved
        assert step == 12
        server.faults.denied = 0
        finish(run_, stop, state, step, saved=saved)

    monkeypatch.setattr(loop, "finish_saving", come_back)
    result = run(root, SHORT)
    assert (result.step, result.finished) == (12, True)
    assert final_state(result) == final_state(undisturbed)
    assert metrics_without_clock(result.folder) == metrics_without_clock(undisturbed.folder)
    assert weights_steps(result.folder) == [4, 12]
    logs = b"".join(result.folder.read(name) or b"" for name in result.folder.names("logs/*"))
    assert b"step      8  the checkpoint could not be saved" in logs


def test_the_last_checkpoint_waits_for_the_bucket(
    root: Layout, undisturbed: TrainResult, server: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third attempt succeeds."""
    from trm_train.training import loop, stop

    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        server.faults.denied = 0 if len(waits) == 2 else 10_000

    lose_after_step_4(server, loop, monkeypatch)
    monkeypatch.setattr(stop, "time", SimpleNamespace(sleep=wait))
    result = run(root, SHORT)
    assert waits == [stop.RETRY_S] * 2
    assert result.finished
    assert final_state(result) == final_state(undisturbed)
    assert metrics_without_clock(result.folder) == metrics_without_clock(undisturbed.folder)


def test_a_signal_ends_the_wait_for_the_bucket_and_the_run_resumes(
    root: Layout, undisturbed: TrainResult, server: GcsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trm_train.training import loop, stop

    def interrupt(seconds: float) -> None:
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        lose_after_step_4(server, loop, patched)
        patched.setattr(stop, "time", SimpleNamespace(sleep=interrupt))
        with pytest.raises(BucketError, match="resumes from the one before") as lost:
            run(root, SHORT)
    assert lost.value.exit_code == 4
    server.faults.denied = 0
    result = run(root, SHORT)
    assert result.started_at == 4
    assert final_state(result) == final_state(undisturbed)
    assert metrics_without_clock(result.folder) == metrics_without_clock(undisturbed.folder)


@pytest.mark.parametrize(
    "outage_s", [1.5, pytest.param(60.0, marks=pytest.mark.slow)], ids=["a moment", "a minute"]
)
def test_an_evaluation_outlives_a_bucket_that_is_away(
    root: Layout,
    undisturbed: TrainResult,
    server: GcsServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    outage_s: float,
) -> None:
    """An outage of a minute with the usual waits, starting when there is something to write."""
    if outage_s < 60:
        monkeypatch.setattr(trm_data.storage.gcs, "FIRST_WAIT_S", 0.02)
        monkeypatch.setattr(trm_data.storage.gcs, "LONGEST_WAIT_S", 0.16)
        monkeypatch.setattr(trm_data.storage.gcs, "PATIENCE_S", 4.0)
    folder = run(root).folder
    begun: list[float] = []

    def go_away(writer, *arguments, add=PredictionWriter.add):
        if not begun:
            begun.append(time.monotonic())
            server.faults.unavailable_until = begun[0] + outage_s
        return add(writer, *arguments)

    monkeypatch.setattr(PredictionWriter, "add", go_away)
    evaluated = evaluate_run(root, folder, EvalRequest())
    assert time.monotonic() - begun[0] > outage_s
    assert "the bucket does not answer" in caplog.text
    assert evaluated.row["count"] == 12
    counts = "SELECT (SELECT count(*) FROM predictions), (SELECT count(*) FROM all_evals)"
    assert query_results(root, counts).rows == [(12, 1)]


def test_runs_and_results_are_copied_home_and_go_on_there(
    root: Layout, undisturbed: TrainResult, tmp_path: Path, local: Layout
) -> None:
    result = run(root)
    evaluated = evaluate_run(root, result.folder, EvalRequest())
    home = resolve_root(tmp_path / "home")
    copy_root(root, home, "datasets")
    copy_root(root, home, "runs", "results")
    assert query_results(home, "SELECT evaluation FROM evals").rows == [(evaluated.row["evaluation"],)]
    again = run(home)
    assert (again.started_at, again.step) == (12, 12)
    assert final_state(again) == final_state(undisturbed)
