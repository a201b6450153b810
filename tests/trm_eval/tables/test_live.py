"""Tables of runs, read from their folders."""

from __future__ import annotations

import dataclasses
import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
from flax import nnx

import trm_eval
from tests.support.roots import copy_root
from tests.trm_eval.conftest import Evaluated
from tests.trm_train.test_loop import EXPERIMENT, TINY
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout, resolve_root
from trm_eval.tables.live import run_rows
from trm_eval.tables.query import query_results
from trm_train import extensions
from trm_train.model.layers import SwiGLU, rms_norm
from trm_train.runs.record import CONFIG_FILE, list_runs, make_record, run_folder, write_record
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


class ShiftBlock(nnx.Module):
    """A mixer of another package: adds neighbours, and does not count its operations."""

    positions_first = False

    def __init__(self, config: Any, length: int, *, rngs: nnx.Rngs) -> None:
        del length
        self.mlp = SwiGLU(config.hidden_size, config.expansion, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        x = rms_norm(x + jnp.roll(x, 1, axis=1))
        return rms_norm(x + self.mlp(x))


def test_a_mixer_of_another_package_has_its_own_parameters_and_no_operations(
    small_layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("shift", f"{__name__}:ShiftBlock", "trm_train.mixers")
    monkeypatch.setattr(extensions, "extensions", lambda kind: {"shift": point} if kind == "mixers" else {})
    layout = resolve_root(tmp_path)
    model = dataclasses.replace(TINY.model, mixer="shift")
    config = dataclasses.replace(TINY, model=model)
    record = make_record(EXPERIMENT, config, read_manifest(small_layout, "small"))
    write_record(run_folder(layout, EXPERIMENT, config), record)
    columns = "parameters, training_flops, evaluation_flops"
    # One SwiGLU of width 16, inner 256; embedding and head of 10 tokens; the halting head.
    expected = 3 * 16 * 256 + 2 * 16 * record.input_spec.vocabulary_size + 2 * 16 + 2
    assert trm_eval.sql(f"SELECT {columns} FROM runs", layout).rows() == [(expected, None, None)]
    monkeypatch.setattr(
        extensions, "extensions", lambda kind: {}
    )  # without its package, the stored counts remain
    assert trm_eval.sql(f"SELECT {columns} FROM runs", layout).rows() == [(expected, None, None)]
