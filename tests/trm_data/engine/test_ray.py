"""A Ray cluster builds the same bytes as threads, also when it loses a node on the way (the extra `ray`)."""

import contextlib
import dataclasses
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from trm_data.build import build_dataset
from trm_data.errors import BadRowError
from trm_data.layout import Layout
from trm_data.specs import SudokuOptions

ray = pytest.importorskip("ray", reason="needs the extra ray")
RAY = Path(sys.executable).with_name("ray")
PORT = 26379


def start(*arguments: str) -> int:
    """Start a node; returns the process id of its raylet."""
    before = raylets()
    done = subprocess.run(
        [RAY, "start", "--num-cpus", "1", "--disable-usage-stats", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
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
    """Kill a node by its process id, and what it started: `ray stop` would end every Ray process."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for child in process.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
        process.kill()


@pytest.fixture(scope="module")
def cluster():
    """Two nodes on this machine, each with one core. Yields the process id of the second."""
    os.environ["RAY_AUTH_MODE"] = (
        "disabled"  # the nodes talk over loopback; a token would be written to the home
    )
    head = start("--head", "--port", str(PORT), "--node-ip-address", "127.0.0.1", "--include-dashboard=false")
    second = start("--address", f"127.0.0.1:{PORT}", "--node-ip-address", "127.0.0.2")
    os.environ["RAY_ADDRESS"] = f"127.0.0.1:{PORT}"
    try:
        yield second
    finally:
        ray.shutdown()
        os.environ.pop("RAY_ADDRESS")
        os.environ.pop("RAY_AUTH_MODE")
        end(second)
        end(head)
        for process in psutil.process_iter(["cmdline"]):  # what the head started beside its raylet
            with contextlib.suppress(psutil.Error):
                command = " ".join(process.info["cmdline"] or ())
                if "/ray/" in command and str(PORT) in command:
                    process.kill()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_same_bytes_although_a_node_is_killed(cluster: int, tmp_path, request_small) -> None:
    from trm_data.engine.ray import RayEngine

    options = SudokuOptions(box_rows=2, box_columns=3)
    request = request_small(size=400, aug=200, val_size=50, test_size=100, options=options)
    expected = build_dataset(request, Layout(tmp_path / "threads"), shard_examples=2_000).manifest
    engine = RayEngine()
    assert engine.workers == 2
    layout = Layout(tmp_path / "ray")
    shards = layout.dataset("small")
    killed = threading.Event()

    def kill_when_it_writes() -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if len(list(shards.glob("train-*.array_record"))) >= 3:
                end(cluster)
                killed.set()
                return
            time.sleep(0.005)

    killer = threading.Thread(target=kill_when_it_writes)
    killer.start()
    built = build_dataset(request, layout, engine=engine, shard_examples=2_000).manifest
    killer.join()
    assert killed.is_set()
    assert built.content_digest == expected.content_digest
    theirs = {shard.file: shard.sha256 for split in built.splits.values() for shard in split.shards}
    ours = {shard.file: shard.sha256 for split in expected.splits.values() for shard in split.shards}
    assert theirs == ours
    wrong = dataclasses.replace(
        request, name="bad", source=_bad_source(tmp_path), size=2, val_size=0, test_size=0
    )
    with pytest.raises(BadRowError, match=r"bad\.csv:2: the puzzle has several solutions"):
        build_dataset(wrong, layout, engine=engine)


def _bad_source(tmp_path: Path):
    from trm_data.sources.base import parse_source

    path = tmp_path / "bad.csv"
    path.write_text("question\n" + "1" + "." * 35 + "\n" + "11" + "." * 34 + "\n")
    return parse_source(f"csv:{path}")
