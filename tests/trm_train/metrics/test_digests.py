"""The rows digest of every step equals that of the loader's batches, in every process."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from tests.conftest import run_here
from tests.multiprocess.processes import RUN
from tests.support.roots import root_with
from trm_data.loader.dataset import open_dataset
from trm_data.loader.pipeline import make_loader
from trm_data.storage.root import Layout
from trm_train.cli import main
from trm_train.mesh import batch_fingerprint
from trm_train.metrics import read_metrics
from trm_train.runs.record import list_runs


@pytest.mark.integration
def test_every_step_says_which_rows_it_was_given(small_layout: Layout, tmp_path: Path) -> None:
    layout = root_with("small", tmp_path, small_layout)
    options = [
        "--total-steps",
        "5",
        "--execution.validate-every",
        "0",
        "--root",
        str(tmp_path),
        "--seed",
        "3",
    ]
    done = run_here(main, *RUN, *options)
    assert done.returncode == 0, done.stderr
    (run,) = list_runs(layout)
    said = read_metrics(run).column("rows_digest").to_pylist()
    with make_loader(open_dataset("small", layout, "train"), global_batch_size=8, seed=3) as batches:
        assert said == [int(batch_fingerprint(next(batches))) for _ in range(5)]
    assert len(set(said)) == 5


def test_a_digest_tells_rows_and_their_order_apart() -> None:
    rng = np.random.default_rng(0)
    batch = {"inputs": rng.integers(0, 5, (8, 9)), "labels": rng.integers(0, 5, (8, 9))}
    batch["puzzle_identifiers"] = np.arange(8)
    digest = int(batch_fingerprint(batch))
    small = {name: jnp.asarray(values, jnp.uint8) for name, values in batch.items()}
    assert int(batch_fingerprint(small)) == digest
    swapped = {name: values[[1, 0, *range(2, 8)]] for name, values in batch.items()}
    others = [swapped]
    for name in batch:
        changed = {key: values.copy() for key, values in batch.items()}
        changed[name].flat[3] += 1
        others.append(changed)
    others.append({**batch, "inputs": batch["labels"], "labels": batch["inputs"]})
    assert len({digest, *(int(batch_fingerprint(other)) for other in others)}) == 1 + len(others)
