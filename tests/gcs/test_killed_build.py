"""A build to a bucket, killed at any moment and run again, gives the same rows as an undisturbed one."""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gcs.conftest import URL
from tests.gcs.server import GcsServer
from trm_data.building.flow import build_dataset
from trm_data.storage.root import Layout, resolve_root
from trm_data.verify.flow import verify_dataset

KILLS = 10
SHARD_EXAMPLES = 1500

BUILD = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).resolve().parents[1])!r})
from conftest import small_request
from trm_data.building.flow import build_dataset
from trm_data.storage.gcs import bucket_store
from trm_data.storage.root import resolve_root
import trm_data.storage.lease as lease
lease.BEAT_S, lease.LEASE_S, lease.POLL_S = 0.2, 1.5, 0.1
import trm_data.kinds.sudoku.kind, duckdb, pyarrow, array_record.python.array_record_module
bucket_store(sys.argv[1]).stat("warm")
print("ready", flush=True)
sys.stdin.readline()
begun = time.perf_counter()
request = small_request(size=60, aug=400, name="killed")
build_dataset(request, resolve_root(sys.argv[1]), shard_examples={SHARD_EXAMPLES})
print(time.perf_counter() - begun, flush=True)
"""


def start(url: str) -> subprocess.Popen[str]:
    """Start a process that has imported everything and waits for a line on stdin to build."""
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.slow
def test_killed_at_random_moments(
    server: GcsServer, machine: Callable[[str], Layout], request_small: Callable[..., object], tmp_path: Path
) -> None:
    request = request_small(size=60, aug=400, name="killed")
    expected = build_dataset(
        request, resolve_root(tmp_path / "local"), shard_examples=SHARD_EXAMPLES
    ).manifest.content_digest
    machine("first")
    for whole in ("cold", "whole"):
        with start(f"{URL}/{whole}") as process:
            go(process)
            assert process.stdout is not None
            seconds = float(process.stdout.readline())
    draws = random.Random(0)
    killed = resumed = 0
    for number in range(KILLS):
        url = f"{URL}/{number}"
        machine("first")
        with start(url) as process:
            go(process)
            time.sleep(draws.uniform(0.05, seconds * 1.05))
            process.kill()
        layout = resolve_root(url)
        finished = layout.dataset_names() != []
        killed += not finished
        shards = sum(
            name.startswith(f"trm/{number}/") and name.endswith(".array_record") for name in server.written
        )
        result = build_dataset(request, layout, shard_examples=SHARD_EXAMPLES)
        again = sum(
            name.startswith(f"trm/{number}/") and name.endswith(".array_record") for name in server.written
        )
        assert result.unchanged == finished
        assert result.manifest.content_digest == expected
        assert again <= 19  # each shard is uploaded once, despite the kills
        resumed += result.shards_kept > 0 and shards > 0
        assert not [path for path in layout.dataset("killed").here.rglob("*") if path.is_file()]
        machine("another")
        assert verify_dataset(resolve_root(url), "killed").problems == []
    assert killed >= 4, "too few kills came before the manifest to mean anything"
    assert resumed >= 1, "no kill left a whole shard on the bucket"
