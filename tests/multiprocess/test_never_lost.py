"""Runs of several processes survive damage that one process sees, bucket faults, kills and hangs."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.gcs.server import GcsServer
from tests.multiprocess.processes import ended, start_together, train_together
from tests.multiprocess.test_training import only_run
from tests.support.roots import root_with
from trm_data.errors import Exit
from trm_data.loader.dataset import open_dataset
from trm_data.loader.pipeline import make_loader
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import resume_steps, saved_steps
from trm_train.mesh import batch_fingerprint
from trm_train.metrics import read_metrics
from trm_train.runs.record import list_runs
from trm_train.runs.status import read_status

SIX = ["--total-steps", "6", "--execution.validate-every", "0", "--execution.checkpoint-every", "3"]
URL = "gs://bucket/trm"


def check_steps(run: Folder, small_layout: Layout, steps: int) -> None:
    """Check that every step is recorded once, with the expected rows."""
    rows = [row for row in read_metrics(run).to_pylist() if row["split"] == "train"]
    assert [row["step"] for row in rows] == list(range(1, steps + 1))
    with make_loader(open_dataset("small", small_layout, "train"), global_batch_size=8, seed=0) as batches:
        assert [row["rows_digest"] for row in rows] == [
            int(batch_fingerprint(next(batches))) for _ in range(steps)
        ]


@pytest.mark.slow
def test_damage_that_one_process_finds_is_passed_over_by_all(small_layout: Layout, tmp_path: Path) -> None:
    layout = root_with("small", tmp_path, small_layout)
    constant = [*SIX, "--optim.lr-min-ratio", "1.0"]
    train_together(tmp_path, 2, constant)
    run = only_run(layout)
    newest = Path(run.uri("checkpoints/resume/6/state/ocdbt.process_1"))
    damaged = [path for path in newest.rglob("*") if path.is_file() and path.parent.name == "d"]
    assert damaged, sorted(newest.rglob("*"))
    for path in damaged:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    first, second = train_together(tmp_path, 2, [*constant, "--extend", "10"])
    assert "resuming from the checkpoint before, at step 3" in first.stderr
    assert "resume/6: " in first.stderr
    assert "Traceback" not in first.stderr + second.stderr
    check_steps(run, small_layout, 10)
    assert resume_steps(run)[-1] == 10


def put_dataset(server: GcsServer, small_layout: Layout) -> None:
    folder = small_layout.dataset("small").here
    for path in folder.rglob("*"):
        if path.is_file():
            server.put("bucket", f"trm/datasets/small/{path.relative_to(folder)}", path.read_bytes())


@pytest.mark.slow
def test_processes_share_nothing_but_a_bucket(
    small_layout: Layout, server: GcsServer, tmp_path: Path
) -> None:
    """Each with its own cache, as on separate machines; then one resumes alone, with 5% of requests failing."""
    put_dataset(server, small_layout)
    caches = [str(tmp_path / f"machine-{index}") for index in range(2)]
    constant = [*SIX, "--optim.lr-min-ratio", "1.0"]

    def together(*more: str) -> list[subprocess.CompletedProcess[str]]:
        started = start_together(URL, 2, [*constant, *more], [{"TRM_CACHE": cache} for cache in caches])
        done = ended(started)
        assert [one.returncode for one in done] == [0, 0], "\n".join(one.stderr[-3000:] for one in done)
        return done

    together()
    server.faults.unavailable_share = 0.05
    together("--extend", "12")
    run = only_run(resolve_root(URL))
    server.faults.unavailable_share = 0.0
    check_steps(run, small_layout, 12)
    status = read_status(run)
    assert status is not None
    assert (status.state, status.step, status.workers) == ("finished", 12, 2)
    assert resume_steps(run)[-1] == 12
    assert {name.split("-")[1] for name in run.names("logs/*")} == {"0", "1"}


ENDLESS = ["--execution.checkpoint-every", "5", "--execution.validate-every", "0", "--total-steps", "100000"]
SOON = ["--join-s", "20"]
"""How long the other processes wait for a process that was killed before it joined."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_kills_at_any_moment_lose_and_repeat_nothing(small_layout: Layout, tmp_path: Path, seed: int) -> None:
    """Ten times: kill one process or all of them, while they start, save or train."""
    layout, count = root_with("small", tmp_path, small_layout), 4 if seed == 0 else 2
    kill_and_go_on(layout, count, 10, random.Random(seed))
    check_to_the_end(only_run(layout), small_layout)


@pytest.mark.slow
def test_kills_lose_nothing_where_the_bucket_fails_too(
    small_layout: Layout, server: GcsServer, tmp_path: Path
) -> None:
    """Ten times, on separate machines, with 5% of all requests refused."""
    put_dataset(server, small_layout)
    machines = [{"TRM_CACHE": str(tmp_path / f"machine-{index}")} for index in range(2)]
    layout = resolve_root(URL)
    server.faults.unavailable_share = 0.05
    kill_and_go_on(layout, 2, 10, random.Random(3), machines)
    server.faults.unavailable_share = 0.0
    check_to_the_end(only_run(layout), small_layout)


def kill_and_go_on(
    layout: Layout,
    count: int,
    kills: int,
    chance: random.Random,
    machines: list[dict[str, str]] | None = None,
) -> None:
    """Start a run `kills` times and kill it each time; then let it reach a checkpoint, and stop it."""
    seen: list[str] = []
    for trial in range(kills):
        before = max(saved_steps(list_runs(layout)[0]), default=0) if list_runs(layout) else 0
        processes = start_together(layout.place, count, [*ENDLESS, *SOON], machines)
        moment = ["start", "save", "train"][trial % 3]
        if moment == "start":
            time.sleep(chance.uniform(0.0, 8.0))
        else:
            wait_for_more(layout, before, processes)
            time.sleep(chance.uniform(0.0, 1.5) if moment == "train" else chance.uniform(0.0, 0.05))
        victims = processes if trial % 2 else [chance.choice(processes)]
        for process in victims:
            process.kill()
        seen.append(f"{moment}, {len(victims)} of {count}")
        codes = [one.returncode for one in ended(processes)]
        assert all(codes), (seen, codes)  # no process succeeds or hangs
    stop_after(layout, count, max(saved_steps(only_run(layout)), default=0) + 5, machines)


def check_to_the_end(run: Folder, small_layout: Layout) -> None:
    """Check that every step in the run's status is recorded."""
    status = read_status(run)
    assert status is not None
    check_steps(run, small_layout, status.step)


def wait_for_more(layout: Layout, before: int, processes: list[subprocess.Popen[str]]) -> None:
    """Wait for a checkpoint newer than `before`."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        if list_runs(layout) and max(saved_steps(list_runs(layout)[0]), default=0) > before:
            return
        assert all(process.poll() is None for process in processes), [one.stderr for one in ended(processes)]
        time.sleep(0.01)
    raise AssertionError("no new checkpoint in 180 s")


def stop_after(layout: Layout, count: int, step: int, machines: list[dict[str, str]] | None = None) -> None:
    """Train to a checkpoint at or after a step, then stop, as a preemption does."""
    processes = start_together(layout.place, count, ENDLESS, machines)
    wait_for_more(layout, step - 1, processes)
    processes[-1].send_signal(signal.SIGTERM)
    assert {one.returncode for one in ended(processes)} == {Exit.TERMINATED}
