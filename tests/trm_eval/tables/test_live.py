"""Tables of runs, read from their folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.roots import copy_root
from tests.trm_eval.conftest import Evaluated
from trm_data.storage.root import Layout, resolve_root
from trm_eval.tables.live import run_rows
from trm_eval.tables.query import query_results
from trm_train.runs.record import CONFIG_FILE, list_runs
from trm_train.runs.status import STATUS_FILE, read_status


@pytest.fixture
def copied(evaluated: Evaluated, tmp_path: Path) -> Layout:
    """A root with a copy of the run that a test may change."""
    layout = resolve_root(tmp_path)
    copy_root(evaluated.layout, layout, "runs")
    return layout


def test_a_run_is_a_row_with_its_state(evaluated: Evaluated) -> None:
    table, problems = run_rows(evaluated.layout, list_runs(evaluated.layout))
    (row,) = table.to_pylist()
    status = read_status(evaluated.folder)
    assert status is not None
    assert (row["experiment"], row["run"], row["state"]) == ("tiny", evaluated.record.run, "finished")
    assert (row["step"], row["total_steps"], row["dataset"]) == (12, 12, "small")
    assert row["train_seconds"] == status.seconds > 0
    assert row["heartbeat"].isoformat(timespec="milliseconds") == status.heartbeat
    assert json.loads(row["config"])["model"]["hidden_size"] == 16
    assert row["file"] == f"{evaluated.folder.path}/{CONFIG_FILE}"
    assert problems == [None]


@pytest.mark.parametrize(
    "changes",
    [
        {"heartbeat": "yesterday"},
        {"step": "many"},
        {"state": "asleep"},
    ],
)
def test_a_status_that_cannot_be_breaks_no_query(
    copied: Layout, evaluated: Evaluated, changes: dict[str, Any]
) -> None:
    folder = copied.runs.within(evaluated.folder.path.removeprefix("runs/"))
    content = folder.read(STATUS_FILE)
    assert content is not None
    folder.write(STATUS_FILE, json.dumps({**json.loads(content), **changes}).encode())
    assert read_status(folder) is None
    found = query_results(copied, "SELECT run, total_steps, state, heartbeat FROM runs").rows
    assert found == [(evaluated.record.run, 12, None, None)]
