"""An unreachable bucket: short outages delay requests; in long ones the run continues and saves a later checkpoint."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.gcs.proxy import proxy_of
from tests.gcs.server import GcsServer
from tests.multiprocess.processes import RUN, ended, start, start_together
from tests.multiprocess.test_never_lost import URL, check_steps, put_dataset, wait_for_more
from tests.multiprocess.test_training import only_run
from trm_data.errors import Exit
from trm_data.storage.root import Layout, resolve_root
from trm_train.checkpoint.manager import resume_steps
from trm_train.runs.status import read_status

ENDLESS = ["--execution.checkpoint-every", "20", "--execution.validate-every", "0", "--total-steps", "100000"]
SOON = {"TRM_BUCKET_PATIENCE_S": "5"}
"""Retry deadline of requests in these tests; the default is `gcs.PATIENCE_S`."""


class Machines:
    """Simulated machines that share only the bucket, and their run."""

    def __init__(self, count: int, folder: Path) -> None:
        self.caches = [folder / f"machine-{index}" for index in range(count)]
        self.layout = resolve_root(URL)

    def start(self, *options: str, **environment: str) -> list[subprocess.Popen[str]]:
        own = [environment | {"TRM_CACHE": str(cache)} for cache in self.caches]
        if len(own) == 1:
            return [start([*RUN, *ENDLESS, *options, "--root", URL], **own[0])]
        return start_together(URL, len(own), [*ENDLESS, *options], own)

    def stop_later(
        self, processes: list[subprocess.Popen[str]], after: int = 0
    ) -> list[subprocess.CompletedProcess[str]]:
        """Stop them, as a preemption does, after a new checkpoint that is also newer than step `after`."""
        wait_for_more(self.layout, max([after, *resume_steps(only_run(self.layout))]), processes)
        processes[-1].send_signal(signal.SIGTERM)
        done = ended(processes)
        assert {one.returncode for one in done} == {Exit.TERMINATED}, done[0].stderr[-3000:]
        return done

    def check_steps(self, small_layout: Layout) -> None:
        run = only_run(self.layout)
        status = read_status(run)
        assert status is not None
        check_steps(run, small_layout, status.step)


def go_away(machines: Machines, processes: list[subprocess.Popen[str]], server: GcsServer) -> None:
    """Make the bucket unreachable for an hour, between the first and the second checkpoint."""
    wait_for_more(machines.layout, 0, processes)
    while not resume_steps(only_run(machines.layout)):
        time.sleep(0.01)
    server.faults.unavailable_until = time.monotonic() + 3600


def wait_for_line(process: subprocess.Popen[str], pattern: str) -> int:
    """Read the output of a process until a line matches a pattern; return the step in it."""
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(pattern, line):
            return int(found[1].replace(",", ""))
    raise AssertionError(f"ended without {pattern}")


@pytest.mark.slow
def test_for_a_quarter_of_a_minute_the_run_waits_and_goes_on(
    small_layout: Layout, server: GcsServer, tmp_path: Path
) -> None:
    """With the default retries: gcsfs, which Orbax uses to write, gives up after half a minute."""
    put_dataset(server, small_layout)
    machines = Machines(2, tmp_path)
    processes = machines.start()
    wait_for_more(machines.layout, 0, processes)
    server.faults.unavailable_until = time.monotonic() + 15
    time.sleep(15.0)
    assert all(process.poll() is None for process in processes)
    done = machines.stop_later(processes)
    assert "Traceback" not in done[0].stderr + done[1].stderr
    machines.check_steps(small_layout)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_for_an_hour_the_run_continues_and_saves_when_the_bucket_is_back(
    small_layout: Layout, server: GcsServer, tmp_path: Path, count: int
) -> None:
    put_dataset(server, small_layout)
    machines = Machines(count, tmp_path)
    processes = machines.start(**SOON)
    go_away(machines, processes, server)
    skipped = wait_for_line(processes[0], r"step +([\d,]+)  the checkpoint could not be saved")
    server.faults.unavailable_until = 0.0
    done = machines.stop_later(processes, skipped)
    assert "Traceback" not in "".join(one.stderr for one in done)
    machines.check_steps(small_layout)


@pytest.mark.slow
def test_where_one_machine_alone_loses_the_bucket_in_a_save_all_end_and_resume(
    small_layout: Layout, server: GcsServer, tmp_path: Path
) -> None:
    """The first process always reaches its bucket, and would wait for the other's part of the checkpoint."""
    put_dataset(server, small_layout)
    machines = Machines(2, tmp_path)
    with proxy_of(server.url, b"weights%2F40", b"weights/40") as proxy:
        away = {"STORAGE_EMULATOR_HOST": proxy.url, "TENSORSTORE_GCS_HTTP_URL": proxy.url}
        own = [{"TRM_CACHE": str(cache), **SOON} for cache in machines.caches]
        limited = [*ENDLESS, "--execution.save-limit-s", "12"]
        processes = start_together(URL, 2, limited, [own[0], own[1] | away])
        done = ended(processes)
    assert all(one.returncode for one in done), done[0].stderr[-3000:]
    assert resume_steps(only_run(machines.layout)) == [20]
    machines.stop_later(machines.start(), 40)
    machines.check_steps(small_layout)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_a_save_that_hangs_ends(small_layout: Layout, server: GcsServer, tmp_path: Path, count: int) -> None:
    put_dataset(server, small_layout)
    machines = Machines(count, tmp_path)
    processes = machines.start("--execution.save-limit-s", "12", "--execution.checkpoint-every", "50")
    wait_for_more(machines.layout, 0, processes)
    server.faults.hangs_until = time.monotonic() + 3600
    done = ended(processes)
    assert all(one.returncode for one in done), done[0].stderr[-3000:]
    assert any("Timeout (0:00:12)!" in one.stderr for one in done)
    before = max(resume_steps(only_run(machines.layout)))
    server.faults.hangs_until = 0.0
    machines.stop_later(machines.start(), before)
    machines.check_steps(small_layout)
