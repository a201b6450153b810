"""A Ray cluster builds the same bytes as this machine: on a bucket, and with a lost node (the extra `ray`)."""

import contextlib
import dataclasses
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

import trm_data.building.flow
from tests.gcs import conftest as gcs
from trm_data.building.flow import build_dataset
from trm_data.building.shard_job import ShardJob, WrittenShard, write_job
from trm_data.errors import BadRowError
from trm_data.kinds.sudoku.options import SudokuOptions
from trm_data.manifest import Manifest
from trm_data.specs import BuildRequest
from trm_data.storage.root import Layout, resolve_root
from trm_data.verify.flow import verify_dataset

ray = pytest.importorskip("ray", reason="needs the extra ray")
RAY = Path(sys.executable).with_name("ray")
PORT = 26379

server, machine = gcs.server, gcs.machine
Machine = Callable[[str], Layout]


def start(*arguments: str) -> int:
    """Start a node, whose workers get the current environment; return the process id of its raylet."""
    before = raylets()
    done = subprocess.run(
        [RAY, "start", "--num-cpus", "1", "--disable-usage-stats", *arguments],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (raylet,) = raylets() - before
    return raylet


def raylets() -> set[int]:
    found = set()
    for process in psutil.process_iter(["name"]):
        with contextlib.suppress(psutil.Error):
            if process.info["name"] == "raylet" and str(PORT) in " ".join(process.cmdline()):
                found.add(process.pid)
    return found


def end(pid: int) -> None:
    """Kill a node by its process id, with its child processes: `ray stop` would end every Ray process."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        kill([*process.children(recursive=True), process])


def kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(processes, timeout=10)


@pytest.fixture
def cluster(server: object, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Two nodes on this machine, each with one core and its own cache; `first` is also our cache.

    Both reach the loopback bucket. Yields the process id of the second node.
    """
    # The nodes communicate over loopback; a token would be written to the home folder.
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    head = second = 0
    try:
        machine("first")
        head = start(
            "--head", "--port", str(PORT), "--node-ip-address", "127.0.0.1", "--include-dashboard=false"
        )
        machine("second")
        second = start("--address", f"127.0.0.1:{PORT}", "--node-ip-address", "127.0.0.2")
        machine("first")
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{PORT}")
        yield second
    finally:
        ray.shutdown()
        for pid in filter(None, (second, head)):
            end(pid)
        left = []  # other processes started by the head
        for process in psutil.process_iter(["cmdline"]):
            command = " ".join(process.info["cmdline"] or ())
            if "/ray/" in command and str(PORT) in command:
                left.append(process)
        kill(left)


@pytest.fixture
def request_rows(request_small: Callable[..., BuildRequest]) -> BuildRequest:
    """Return a request with 43 shards of about 2,000 rows."""
    options = SudokuOptions(box_rows=2, box_columns=3)
    return request_small(size=400, aug=200, val_size=50, test_size=100, options=options)


def shards(manifest: Manifest) -> dict[str, str]:
    """Return the sha256 of every shard."""
    return {shard.file: shard.sha256 for split in manifest.splits.values() for shard in split.shards}


def write_when_both_work(meeting: Path, job: ShardJob) -> WrittenShard:
    """Write a shard as soon as each node has one to write, so that a fast node cannot take all."""
    (meeting / Path(os.environ["TRM_CACHE"]).name).touch()
    deadline = time.monotonic() + 60
    while len(list(meeting.iterdir())) < 2:
        assert time.monotonic() < deadline, "one node got no shard"
        time.sleep(0.02)
    return write_job(job)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_same_bytes_on_a_bucket(
    cluster: int,
    machine: Machine,
    tmp_path: Path,
    request_rows: BuildRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from trm_data.engine.ray import RayEngine

    expected = build_dataset(request_rows, resolve_root(tmp_path / "local"), shard_examples=2_000).manifest
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    monkeypatch.setattr(trm_data.building.flow, "write_job", partial(write_when_both_work, meeting))
    built = build_dataset(request_rows, machine("first"), engine=RayEngine(), shard_examples=2_000)
    assert built.shards_written == len(shards(expected)) == 43
    assert built.manifest.content_digest == expected.content_digest
    assert shards(built.manifest) == shards(expected)
    assert built.manifest.splits == expected.splits
    for node in ("first", "second"):  # a node caches the shards that it wrote, by sha256
        kept = {path.name for path in (tmp_path / node / "files").glob("*/*")}
        assert kept & set(shards(expected).values()), f"the {node} node wrote no shard"
        assert (tmp_path / node / "roots").is_dir(), f"the {node} node wrote into another one's folder"
        assert not list((tmp_path / node / "roots").rglob("*.array_record"))
    assert verify_dataset(machine("third"), "small").problems == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_same_bytes_although_a_node_is_killed(
    cluster: int, tmp_path: Path, request_rows: BuildRequest
) -> None:
    from trm_data.engine.ray import RayEngine

    expected = build_dataset(request_rows, resolve_root(tmp_path / "local"), shard_examples=2_000).manifest
    engine = RayEngine()
    assert engine.workers == 2
    layout = resolve_root(tmp_path / "ray")
    folder = layout.dataset("small").here
    killed = threading.Event()

    def kill_when_it_writes() -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if len(list(folder.glob("train-*.array_record"))) >= 3:
                end(cluster)
                killed.set()
                return
            time.sleep(0.005)

    killer = threading.Thread(target=kill_when_it_writes)
    killer.start()
    built = build_dataset(request_rows, layout, engine=engine, shard_examples=2_000).manifest
    killer.join()
    assert killed.is_set()
    assert built.content_digest == expected.content_digest
    assert shards(built) == shards(expected)
    wrong = dataclasses.replace(
        request_rows, name="bad", source=_bad_source(tmp_path), size=2, val_size=0, test_size=0
    )
    with pytest.raises(BadRowError, match=r"bad\.csv:2: the puzzle has several solutions"):
        build_dataset(wrong, layout, engine=engine)


def _bad_source(tmp_path: Path):
    from trm_data.sources.base import parse_source

    path = tmp_path / "bad.csv"
    path.write_text("question\n" + "1" + "." * 35 + "\n" + "11" + "." * 34 + "\n")
    return parse_source(f"csv:{path}")
