"""Machines that were suspended, lost their lease and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.gcs.conftest import URL
from tests.gcs.server import GcsServer
from trm_data.engine.local import LocalEngine
from trm_data.storage.root import Layout
from trm_data.verify.flow import verify_dataset

Make = Callable[..., Any]
Machine = Callable[[str], Layout]
BIN = Path(sys.executable).parent
ONE = LocalEngine(1)
FOLDER = "trm/datasets/small/"
MANIFEST = f"{FOLDER}manifest.json"


def generations(server: GcsServer) -> dict[str, int]:
    return {name: there.generation for name, there in server.objects["bucket"].items()}


BUILD = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[1])!r})
import trm_data.storage.lease as lease
lease.BEAT_S, lease.LEASE_S, lease.POLL_S = 0.2, 1.5, 0.1
from conftest import small_request
from trm_data.building.flow import build_dataset
from trm_data.engine.local import LocalEngine
from trm_data.errors import DataError
from trm_data.storage.root import resolve_root
os.environ["TRM_CACHE"] = sys.argv[4]
request = small_request(name="small")
workers, examples = int(sys.argv[2]), int(sys.argv[3])
try:
    build_dataset(request, resolve_root(sys.argv[1]), shard_examples=examples, engine=LocalEngine(workers))
except DataError as error:
    sys.exit(type(error).__name__ + ": " + str(error))
"""


def build_process(cache: Path, workers: int, shard_examples: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BUILD, URL, str(workers), str(shard_examples), str(cache)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


OTHERS = [pytest.param(1, after, 60, marks=pytest.mark.slow) for after in (2, 4)]


@pytest.mark.parametrize(("workers", "after", "shard_examples"), [(2, 3, 40), *OTHERS])
def test_a_build_that_slept_and_lost_its_turn_touches_nothing(
    server: GcsServer,
    machine: Machine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    workers: int,
    after: int,
    shard_examples: int,
) -> None:
    """Its whole process group is suspended after some shards; another machine finishes, with other shards."""
    put, reached = server.put, threading.Event()

    def put_and_stop(bucket: str, name: str, data: bytes, **fields: Any) -> Any:
        made = put(bucket, name, data, **fields)
        if sum(name.endswith(".array_record") for name in server.written) == after and not reached.is_set():
            os.killpg(first.pid, signal.SIGSTOP)
            reached.set()
        return made

    monkeypatch.setattr(server, "put", put_and_stop)
    with build_process(tmp_path / "one", workers, 50) as first:
        try:
            assert reached.wait(100)
            with build_process(tmp_path / "two", 1, shard_examples) as second:
                _, said = second.communicate(timeout=100)
                assert second.returncode == 0, said
            before = generations(server)
            assert MANIFEST in before
            os.killpg(first.pid, signal.SIGCONT)
            _, said = first.communicate(timeout=100)
        finally:
            first.kill()
    assert first.returncode == 1
    assert "BusyError" in said
    after_all = generations(server)
    assert {name: after_all.get(name) for name in before} == before
    assert set(after_all) == set(before)
    assert verify_dataset(machine("third"), "small").problems == []
