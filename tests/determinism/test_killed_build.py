"""A build that is killed at any moment, then run again, gives the rows of an undisturbed one."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness.figures import record
from trm_data.building.flow import build_dataset
from trm_data.manifest import read_manifest
from trm_data.storage.root import resolve_root
from trm_data.verify.flow import verify_dataset

BUILD = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from conftest import small_request
from trm_data.building import flow as build
from trm_data.kinds import base
from trm_data.engine.local import LocalEngine
from trm_data.storage.root import Layout, resolve_root
import trm_data.kinds.sudoku.kind, duckdb, pyarrow, array_record.python.array_record_module
base.BRIEF_ROWS = 0  # so that worker processes write the shards
engine = LocalEngine(2)
engine.prepare("trm_data.kinds.sudoku.warm")
print("ready", flush=True)
sys.stdin.readline()
begun = time.perf_counter()
request = small_request(size=60, aug=400, name="killed")
build.build_dataset(request, resolve_root(Path(sys.argv[1])), engine=engine, shard_examples=1500)
print(time.perf_counter() - begun, flush=True)
"""


def start(root: Path) -> subprocess.Popen:
    """A process that has imported everything and waits for a line to build."""
    program = BUILD.format(tests=str(Path(__file__).resolve().parents[1]))
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen) -> None:
    process.stdin.write("go\n")
    process.stdin.flush()


def wait_for_shards(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(list(folder.glob("*.array_record.json"))) < count and time.monotonic() < deadline:
        time.sleep(0.001)


@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_killed_at_random_moments(tmp_path: Path, request_small, kills: int) -> None:
    for whole in ("cold", "whole"):  # the first may compile kernels; the second says how long a build takes
        undisturbed = start(tmp_path / whole)
        go(undisturbed)
        seconds = float(undisturbed.stdout.readline())
        undisturbed.communicate(timeout=600)
    expected = read_manifest(resolve_root(tmp_path / "whole"), "killed").content_digest
    request = request_small(size=60, aug=400, name="killed")
    draws = random.Random(kills)
    killed = resumed = 0
    for number in range(kills):
        layout = resolve_root(tmp_path / f"root{number}")
        with start(layout.machine) as process:
            go(process)
            if number % 2:
                time.sleep(draws.uniform(0, seconds * 1.1))
            else:  # in the middle of writing shards, whatever the machine is doing meanwhile
                wait_for_shards(layout.dataset("killed").here, draws.randint(1, 12))
            process.kill()
        killed += not layout.dataset_names()
        result = build_dataset(request, layout, shard_examples=1500)
        resumed += result.shards_kept > 0
        assert result.manifest.content_digest == expected
        assert not list(result.folder.glob(".tmp-*"))
    assert killed >= kills // 4, "too few kills came before the manifest to mean anything"
    assert resumed >= 1, "no kill left a whole shard behind"
    assert verify_dataset(layout, "killed").problems == []
    record("build kills", {"kills": kills, "before_the_manifest": killed, "with_shards_to_keep": resumed})
