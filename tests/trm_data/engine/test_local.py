"""Worker processes of one machine: ordered results, unchanged errors, nothing left behind."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from trm_data.engine.local import LocalEngine
from trm_data.errors import BadRowError, BuildError, SpecError


def double(item: int) -> tuple[int, int]:
    """Return twice the item, and the id of the process."""
    time.sleep(0.01)
    return 2 * item, os.getpid()


def surroundings(_: int) -> tuple[str, str | None]:
    return str(Path.cwd()), os.environ.get("TRM_TEST_VALUE")


def refuse_three(item: int) -> int:
    if item == 3:
        raise BadRowError("puzzles.csv", 4, "there is no path from S to G")
    time.sleep(0.05)
    return item


def note_and_wait(folder: str) -> None:
    Path(folder, str(os.getpid())).touch()
    time.sleep(60)


def end_at_two(item: int) -> int:
    if item == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


@pytest.fixture
def engine():
    with closing(LocalEngine(2)) as engine:
        yield engine


def test_processes_give_results_in_order(engine: LocalEngine) -> None:
    told: list[int] = []
    results = engine.run(double, range(20), lambda result: told.append(result[0]))
    assert [value for value, _ in results] == [2 * item for item in range(20)]
    assert sorted(told) == [value for value, _ in results]
    processes = {process for _, process in results}
    assert os.getpid() not in processes
    assert len(processes) <= 2  # on a busy machine one process may take all items
    assert {process for _, process in engine.run(double, range(20))} == processes, (
        "workers stay for the next run"
    )


def test_what_is_brief_or_has_one_worker_stays_in_this_process(engine: LocalEngine) -> None:
    here = {os.getpid()}
    assert {process for _, process in engine.run(double, range(5), brief=True)} == here
    assert {process for _, process in engine.run(double, [1])} == here
    assert {process for _, process in LocalEngine(1).run(double, range(5))} == here
    engine.run(double, range(5))
    assert {process for _, process in engine.run(double, [1], brief=True)} != here, "there are workers now"


def test_the_first_error_ends_the_run(engine: LocalEngine) -> None:
    told: list[int] = []
    with pytest.raises(BadRowError, match=r"puzzles\.csv:4: there is no path from S to G"):
        engine.run(refuse_three, range(100), told.append)
    assert len(told) < 20
    assert engine.run(refuse_three, range(3)) == [0, 1, 2], "the engine is still of use"


def test_a_worker_that_is_ended_from_outside(engine: LocalEngine) -> None:
    with pytest.raises(BuildError, match="ended from outside"):
        engine.run(end_at_two, range(6))
    assert engine.run(end_at_two, [0, 1]) == [0, 1], "new workers are started"


def test_workers_have_the_folder_and_environment_of_now(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.prepare("trm_data.kinds.sudoku.warm")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRM_TEST_VALUE", "now")
    assert engine.run(surroundings, range(2)) == [(str(tmp_path), "now")] * 2


def test_an_interrupt_does_not_wait_for_the_tasks(engine: LocalEngine) -> None:
    engine.run(double, range(4))
    # A worker of pytest-xdist ignores Ctrl-C.
    ignoring = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            engine.run(time.sleep, [3600, 3600, 3600])
    finally:
        signal.signal(signal.SIGINT, ignoring)
    timer.join()


def fail_to_unpickle(item: int) -> int:
    raise AwkwardError("a", item)


class AwkwardError(Exception):
    """An error whose `args` differ from its constructor's arguments."""

    def __init__(self, one: str, two: int) -> None:
        super().__init__(f"{one} {two}")


def test_an_error_that_cannot_be_sent_is_named(engine: LocalEngine) -> None:
    with pytest.raises(BuildError, match=r"(?s)a worker process failed: .*AwkwardError"):
        engine.run(fail_to_unpickle, range(3))


@pytest.mark.parametrize("name", ["queue", "numpy"])
def test_modules_of_the_current_folder_are_not_the_library_s(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the current folder was imported')")
    path = tmp_path / "elsewhere" / "script.py"
    path.parent.mkdir()
    path.write_text(script("print([value for value, _ in engine.run(double, range(4))])")[-1])
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert done.stdout == "script\n[0, 2, 4, 6]\n", done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="threads of another process are counted through /proc")
def test_the_server_of_the_workers_has_no_threads() -> None:
    action = """
import psutil
engine.prepare("trm_data.kinds.sudoku.warm")
engine.run(double, range(4))
for process in psutil.Process().children():
    if "forkserver" in " ".join(process.cmdline()):
        print(process.num_threads())
"""
    done = subprocess.run(script(action), capture_output=True, text=True, timeout=600)
    assert done.stdout == "script\n1\n", done.stderr


def test_less_than_one_worker() -> None:
    with pytest.raises(SpecError, match="--workers 0: expected at least 1"):
        LocalEngine(0)


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
print("script", flush=True)
from test_local import double, note_and_wait
from trm_data.engine.local import LocalEngine
engine = LocalEngine(2)
{action}
"""


def script(action: str) -> list[str]:
    return [sys.executable, "-c", SCRIPT.format(folder=str(Path(__file__).parent), action=action)]


def test_a_script_without_a_guard_is_not_run_again_by_workers(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(script("print([value for value, _ in engine.run(double, range(4))])")[-1])
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=600)
    assert done.stdout == "script\n[0, 2, 4, 6]\n", done.stderr


def run_and_note(path: str) -> None:
    values = [value for value, _ in LocalEngine(2).run(double, range(3))]
    Path(path).write_text(str(values))


def test_in_a_daemon_process_tasks_run_there(tmp_path: Path) -> None:
    path = tmp_path / "values"
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=run_and_note, args=(str(path),), daemon=True)
    process.start()
    process.join(60)
    assert path.read_text() == "[0, 2, 4]"


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_process_they_work_for(tmp_path: Path, end: signal.Signals) -> None:
    process = subprocess.Popen(
        script(f"engine.run(note_and_wait, [{str(tmp_path)!r}] * 4)"), stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    workers = [psutil.Process(int(path.name)) for path in tmp_path.iterdir()]
    assert len(workers) == 2
    process.send_signal(end)
    process.wait(timeout=10)
    _, alive = psutil.wait_procs(workers, timeout=5)
    assert not alive
