"""A bucket that fails a twentieth of its requests: every command succeeds, or ends with a clear error."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gcs.conftest import URL, bucket, impatient, machine, server
from tests.gcs.server import GcsServer
from tests.harness.figures import record
from tests.support.roots import copy_root, remove_dataset
from tests.trm_eval.conftest import Evaluated, trained
from trm_data.building.flow import build_dataset
from trm_data.catalog.query import query_catalog
from trm_data.engine.local import LocalEngine
from trm_data.errors import BucketError
from trm_data.loader.dataset import open_dataset
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout
from trm_data.verify.flow import verify_dataset
from trm_eval.tables.query import query_results

__all__ = ["bucket", "impatient", "machine", "server", "trained"]

CHANCES = {
    "unavailable": 0.03,
    "cut_uploads": 0.05,
    "lost_answers": 0.05,
    "cut_downloads": 0.03,
    "shortened_downloads": 0.02,
    "flipped_downloads": 0.02,
}
"""Probability of each fault where it can occur; together about 1 in 20 requests fail."""
LONG_S = int(os.environ.get("TRM_BUCKET_S", "3600"))
"""Duration of the test, in seconds."""
QUERY = "SELECT * FROM predictions ORDER BY row"


@pytest.mark.parametrize("seconds", [5, pytest.param(LONG_S, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("impatient")
def test_a_bucket_that_fails(
    server: GcsServer,
    machine: Callable[[str], Layout],
    trained: Evaluated,
    request_small: Any,
    small_layout: Layout,
    tmp_path: Path,
    seconds: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draws = random.Random(seconds)
    failed = dict.fromkeys(CHANCES, 0)

    def fails_now(fault: str) -> bool:
        happens = draws.random() < CHANCES.get(fault, 0.0)
        if happens:
            failed[fault] += 1
        return happens

    monkeypatch.setattr(server, "fails_now", fails_now)
    expected = read_manifest(small_layout, "small").content_digest
    rows = open_dataset("small", small_layout).read(np.arange(16))
    predictions = query_results(trained.layout, QUERY).rows
    engine, end, rounds, gave_up, built_anew = LocalEngine(1), time.monotonic() + seconds, 0, 0, 0

    def once() -> None:
        layout = machine(f"writer{rounds}")
        built = build_dataset(request_small(), layout, shard_examples=50, engine=engine)
        assert built.manifest.content_digest == expected
        assert not built.unchanged
        other = machine(f"reader{rounds}")
        opened = open_dataset("small", other)
        assert opened.content_digest == expected
        found = opened.read(np.arange(16))
        assert all(np.array_equal(found[name], rows[name]) for name in rows)
        assert query_catalog(other, "SELECT count(*) FROM puzzles").rows == [(44,)]
        assert verify_dataset(other, "small").problems == []
        copy_root(trained.layout, layout, "datasets/small")
        copy_root(trained.layout, layout, "runs")
        copy_root(trained.layout, layout, "results")
        assert query_results(other, QUERY).rows == predictions
        remove_dataset(layout, "small")
        assert [name for name in server.names("bucket") if "/datasets/" in name] == []

    while time.monotonic() < end or not built_anew:
        rounds += 1
        try:
            once()
        except BucketError:  # reported, and the next round starts
            gave_up += 1
        else:
            built_anew += 1
        with server.lock:
            server.log.clear()
            server.written.clear()
            server.uploads.clear()
            keep = () if rounds % 3 == 0 else ("trm/runs/", "trm/results/")
            for name in [name for name in server.names("bucket") if not name.startswith(keep or ("-",))]:
                del server.objects["bucket"][name]
    assert URL.startswith("gs://")
    assert built_anew == rounds - gave_up >= 1
    assert gave_up <= max(1, rounds // 10)
    assert sum(failed.values()) >= 0.02 * server.requests
    print(rounds, server.requests, failed, gave_up)
    counted = {
        "seconds": seconds,
        "rounds": rounds,
        "requests": server.requests,
        "faults": sum(failed.values()),
    }
    record("failing bucket", {**counted, "rounds_that_ended_in_an_error": gave_up, "wrong": 0})
