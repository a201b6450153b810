"""Evaluates weights on a split during training: every row once, sums and counts."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
from jax.sharding import Mesh

from trm_data.loader.dataset import Dataset
from trm_data.loader.pipeline import evaluation_batches
from trm_train.mesh.sharding import batch_sharding, put_batch
from trm_train.state import Weights
from trm_train.step.evaluate import EvalOutputs

BATCH_EXAMPLES = 256

Evaluate = Callable[[Weights, dict[str, jax.Array]], EvalOutputs]


def validate(
    evaluate: Evaluate, weights: Weights, dataset: Dataset, mesh: Mesh, *, limit: int = 0
) -> dict[str, float]:
    """Metric sums over a split.

    Args:
        evaluate: A jitted evaluation step.
        weights: What to evaluate.
        dataset: An opened split.
        mesh: Devices the batches are spread over.
        limit: Rows at most; 0 is all.

    Returns:
        Sums and counts by name, as `trm_train.metrics.sums` defines them.
    """
    sums: dict[str, float] = {}
    batch_size = evaluation_batch_size(dataset, mesh)
    for batch, _, count in evaluation_batches(dataset, batch_size, limit=limit):
        weight = np.arange(batch_size) < count
        outputs = evaluate(weights, put_batch({**batch, "weight": weight}, batch_sharding(mesh)))
        for name, value in jax.device_get(outputs.metrics).items():
            sums[name] = sums.get(name, 0.0) + float(value)
    return sums


def evaluation_batch_size(dataset: Dataset, mesh: Mesh) -> int:
    """Rows of an evaluation batch: a multiple of the devices along `data`, no more than the split needs."""
    devices = mesh.shape["data"]
    wanted = min(BATCH_EXAMPLES, len(dataset))
    return -(-wanted // devices) * devices
