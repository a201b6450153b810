"""Traces of every cycle: they match the predictions, may have latent states, and are removed if not requested."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import trm_eval
from tests.trm_eval.conftest import Evaluated
from trm_data.storage.root import Layout, resolve_root
from trm_eval.errors import EvalError
from trm_eval.evaluation.flow import evaluate_run
from trm_eval.identity import EvalRequest, Sampling
from trm_train.runs.record import list_runs


@pytest.fixture
def layout(evaluated: Evaluated, tmp_path: Path) -> Layout:
    return resolve_root(shutil.copytree(evaluated.layout.place, tmp_path / "root"))


def traced(layout: Layout, rows: int, *, latents: bool = False, limit: int = 0) -> pl.DataFrame:
    request = EvalRequest(traces=rows, latents=latents, limit=limit)
    evaluate_run(layout, list_runs(layout)[0], request)
    return trm_eval.sql("FROM traces ORDER BY row, supervision_step, cycle", layout)


@pytest.mark.integration
def test_the_last_cycle_of_every_step_is_what_the_evaluation_says(
    layout: Layout, evaluated: Evaluated
) -> None:
    config = evaluated.record.config
    steps, cycles = config.model.halt_max_steps, config.model.h_cycles
    found = traced(layout, 5)
    expected = [
        (row, step, cycle)
        for row in range(5)
        for step in range(1, steps + 1)
        for cycle in range(1, cycles + 1)
    ]
    assert found.select("row", "supervision_step", "cycle").rows() == expected
    ends = found.filter(pl.col("cycle") == cycles)
    last = ends.filter(pl.col("supervision_step") == steps)
    predictions = trm_eval.sql("FROM predictions ORDER BY row LIMIT 5", layout)
    assert last["answer"].to_list() == predictions["prediction"].to_list()
    assert last["wrong_cells"].to_list() == predictions["wrong_cells"].to_list()
    assert last["exact"].to_list() == predictions["exact"].to_list()
    np.testing.assert_allclose(last["q_halt_logit"], predictions["q_halt_logit"], rtol=1e-5)
    assert found["latents"].null_count() == found["latent_shape"].null_count() == len(found)
    all_rows = traced(layout, 100)  # more rows than there are
    assert all_rows["row"].n_unique() == 12
    whole = all_rows.filter(pl.col("cycle") == cycles).group_by("supervision_step", maintain_order=True)
    by_depth = whole.agg(pl.col("wrong_cells").sum())["wrong_cells"].to_list()
    assert by_depth == evaluated.row["wrong_cells_by_depth"]


@pytest.mark.integration
def test_latent_states_come_with_their_names_and_shape(layout: Layout, evaluated: Evaluated) -> None:
    config, spec = evaluated.record.config, evaluated.record.input_spec
    found = traced(layout, 2, latents=True, limit=3)
    row = found.row(0, named=True)
    shape = [2, spec.sequence_length + config.model.puzzle_emb_len, config.model.hidden_size]
    assert (row["latent_names"], row["latent_shape"]) == (["z_h", "z_l"], shape)
    latents = np.stack(
        [np.frombuffer(row["latents"], "<f2").reshape(shape) for row in found.iter_rows(named=True)]
    )
    assert np.isfinite(latents).all()
    assert np.abs(np.diff(latents.astype(np.float32), axis=0)).max() > 1e-3  # every cycle differs


@pytest.mark.integration
def test_the_id_is_the_same_with_and_without_and_what_is_not_asked_for_goes(
    layout: Layout, evaluated: Evaluated
) -> None:
    traced(layout, 2)
    folder = Path(layout.place) / "results" / "traces"
    assert len(list(folder.rglob("*.parquet"))) == 1
    assert trm_eval.sql("FROM evals", layout)["evaluation"].to_list() == [evaluated.row["evaluation"]]
    evaluate_run(layout, list_runs(layout)[0], EvalRequest())
    assert list(folder.rglob("*.parquet")) == []
    assert len(trm_eval.sql("FROM traces", layout)) == 0


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (EvalRequest(traces=-1), "--traces: rows, at least 0, got -1"),
        (EvalRequest(latents=True), "--latents: requires --traces"),
        (EvalRequest(traces=1, sampling=Sampling(samples=2)), "--traces: needs one answer"),
    ],
)
def test_what_cannot_be_traced_is_refused(request_: EvalRequest, message: str) -> None:
    with pytest.raises(EvalError, match=message):
        request_.check()
