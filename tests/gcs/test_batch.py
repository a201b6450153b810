"""A batch on a bucket: real processes build, train, test and summarize it, and another machine sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import run_here
from tests.gcs.conftest import URL
from tests.gcs.server import GcsServer
from tests.trm_train.test_batch import SMALL
from trm_data.storage.root import Layout
from trm_eval.tables.query import query_results
from trm_train.cli import main

COMMAND = ["batch", "exp09a", "--scale", "tiny", "--root", URL, *SMALL, "--model.l-cycles", "1", "--json"]


@pytest.mark.slow
def test_a_batch_on_a_bucket(server: GcsServer, machine: Callable[[str], Layout], tmp_path: Path) -> None:
    machine("first")
    done = run_here(main, *COMMAND)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["state"], row["step"], row["count"]) == ("done", 30, 20)
    again = machine("second")
    (same,) = json.loads(run_here(main, *COMMAND).stdout)
    assert same == row  # nothing was trained or tested again
    status = run_here(main, "status", "--root", URL, "--json")
    assert [run["state"] for run in json.loads(status.stdout)] == ["done"]
    assert query_results(again, "SELECT count(*) FROM predictions").rows == [(20,)]
