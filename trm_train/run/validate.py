"""Evaluates weights on a split, every row once: the loop that validation in training and `trm-eval` share.

The next batch is dispatched before the results of the one before are fetched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from trm_data.loader.dataset import Dataset
from trm_data.loader.pipeline import evaluation_batches
from trm_train.mesh.sharding import batch_sharding, put_batch

BATCH_EXAMPLES = 256

Evaluate = Callable[[Any, dict[str, jax.Array]], Any]
"""A jitted evaluation step: weights and batch to `EvalOutputs`."""


@dataclass(frozen=True)
class Evaluated:
    """What an evaluation step gave for one batch.

    Attributes:
        first_row: Row of the split that the batch begins with.
        count: Rows of the batch that are no padding; they come first.
        outputs: `EvalOutputs` on the host.
        seconds: Wall-clock time since the batch before.
    """

    first_row: int
    count: int
    outputs: Any
    seconds: float


def evaluate_split(
    evaluate: Evaluate, weights: Any, dataset: Dataset, mesh: Mesh, *, limit: int = 0
) -> Iterator[Evaluated]:
    """Evaluate every row of a split once, in order.

    Args:
        evaluate: A jitted evaluation step.
        weights: What to evaluate.
        dataset: An opened split.
        mesh: Devices the batches are spread over.
        limit: Rows at most; 0 is all.

    Yields:
        One `Evaluated` a batch.
    """
    batch_size, placed = evaluation_batch_size(dataset, mesh), batch_sharding(mesh)
    begun = time.perf_counter()
    pending: tuple[int, int, Any] | None = None

    def fetched(first_row: int, count: int, outputs: Any) -> Evaluated:
        nonlocal begun
        host = jax.device_get(outputs)
        now = time.perf_counter()
        seconds, begun = now - begun, now
        return Evaluated(first_row, count, host, seconds)

    for batch, first_row, count in evaluation_batches(dataset, batch_size, limit=limit):
        weight = np.arange(batch_size) < count
        outputs = evaluate(weights, put_batch({**batch, "weight": weight}, placed))
        if pending is not None:
            yield fetched(*pending)
        pending = (first_row, count, outputs)
    if pending is not None:
        yield fetched(*pending)


def validate(
    evaluate: Evaluate,
    weights: Any,
    dataset: Dataset,
    mesh: Mesh,
    *,
    limit: int = 0,
    beat: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """Metric sums over a split, by name, as `trm_train.metrics.sums` defines them; `beat` hears of every batch."""
    sums: dict[str, float] = {}
    for evaluated in evaluate_split(evaluate, weights, dataset, mesh, limit=limit):
        beat()
        for name, value in evaluated.outputs.metrics.items():
            sums[name] = sums.get(name, 0.0) + float(value)
    return sums


def evaluation_batch_size(dataset: Dataset, mesh: Mesh) -> int:
    """Rows of an evaluation batch: a multiple of the devices along `data`, no more than the split needs."""
    devices = mesh.shape["data"]
    wanted = min(BATCH_EXAMPLES, len(dataset))
    return -(-wanted // devices) * devices
