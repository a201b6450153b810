"""Invalid input for several processes, or a failure around one of them, ends all of them."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.gcs.server import GcsServer
from tests.multiprocess.processes import RUN, ended, free_address, start, start_together
from tests.multiprocess.test_failing import ENDLESS, wait_for_checkpoint
from tests.multiprocess.test_never_lost import SIX, URL, check_steps, put_dataset
from tests.multiprocess.test_training import only_run
from tests.support.roots import root_with
from trm_data.errors import Exit
from trm_data.storage.root import Layout
from trm_train.metrics import read_metrics

READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
NO_SPACE = 'mkdir -p "$0" && mount -t tmpfs -o size=16k tmpfs "$0" && exec "$@"'


def apart(script: str, folder: Path) -> list[str]:
    """Return a command prefix for a process in its own mount namespace, in which a folder is replaced."""
    before = ["unshare", "-m", "sh", "-c", script, str(folder)]
    if subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount (unshare -m)")
    return before


def options_of(root: str, address: str, count: int, index: int) -> list[str]:
    together = f"--coordinator {address} --num-processes {count} --process-id {index}"
    return [*RUN, "--root", root, *together.split()]


def check_refused(done: list[subprocess.CompletedProcess[str]], words: str, code: Exit = Exit.ERROR) -> None:
    """Check that all end with this exit code, and that each prints the reason without a traceback."""
    for one in done:
        assert one.returncode == code, one.stderr[-3000:]
        assert words in one.stderr
        assert "Traceback" not in one.stderr


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 1])
def test_a_root_that_one_process_may_not_write(small_layout: Layout, tmp_path: Path, index: int) -> None:
    layout = root_with("small", tmp_path / "root", small_layout)
    address, before = free_address(), apart(READ_ONLY, tmp_path / "root")
    processes = [
        start([*options_of(layout.place, address, 2, which), *SIX], before=before if which == index else ())
        for which in range(2)
    ]
    done = ended(processes)
    check_refused([done[index]], "Read-only file system")
    assert done[1 - index].returncode


@pytest.mark.slow
def test_a_second_group_at_the_same_run_is_refused_and_the_first_goes_on(
    small_layout: Layout, tmp_path: Path
) -> None:
    layout = root_with("small", tmp_path, small_layout)
    first = start_together(layout.place, 2, ENDLESS)
    run = wait_for_checkpoint(layout, 10)
    refused, other = ended(start_together(layout.place, 2, ENDLESS))
    check_refused([refused], "is being trained by another process")
    assert other.returncode
    assert [process.poll() for process in first] == [None, None]
    first[0].send_signal(signal.SIGTERM)
    assert {one.returncode for one in ended(first)} == {Exit.TERMINATED}
    check_steps(run, small_layout, len(list_steps(layout)))


def list_steps(layout: Layout) -> list[int]:
    return [row["step"] for row in read_metrics(only_run(layout)).to_pylist() if row["split"] == "train"]


@pytest.mark.slow
def test_no_disk_left_on_one_of_the_hosts(small_layout: Layout, server: GcsServer, tmp_path: Path) -> None:
    """Its cache has no room for the dataset; a retry would not help, so there is no restart."""
    put_dataset(server, small_layout)
    address, before = free_address(), apart(NO_SPACE, tmp_path / "machine-1")
    processes = [
        start(
            [*options_of(URL, address, 2, which), *SIX],
            before=before if which == 1 else (),
            TRM_CACHE=str(tmp_path / f"machine-{which}"),
        )
        for which in range(2)
    ]
    done = ended(processes)
    check_refused(done[1:], "no space for gs://")
    assert done[0].returncode
