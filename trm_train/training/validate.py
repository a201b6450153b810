"""Evaluates weights on a split, every row once. Validation in training and `trm-eval` share this loop.

The next batch is dispatched before the results of the previous batch are fetched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from trm_data.kinds.registry import load_kind
from trm_data.loader.dataset import Dataset
from trm_data.loader.pipeline import ReadsRows, evaluation_batches
from trm_train.mesh import batch_sharding, data_part, make_gather, on_cpu, put_batch
from trm_train.step.compile import cached_rows
from trm_train.step.evaluate import EvalOutputs

BATCH_EXAMPLES = 256
"""Most rows per device of an evaluation batch; fewer on a CPU (`evaluation_batch_size`). Shapes and positions of rows
do not depend on the number of devices, so answers are bit-identical."""

Evaluate = Callable[[Any, dict[str, jax.Array]], Any]
"""A jitted evaluation step: weights and batch to `EvalOutputs`."""


@dataclass(frozen=True)
class Evaluated:
    """Result of an evaluation step for one batch.

    Attributes:
        rows: Row numbers in the split, int64 [n]. They fill the first slots of the batch; the rest is padding.
        outputs: `EvalOutputs` of the whole batch, on the host of every process.
        seconds: Wall-clock time since the previous batch (s).
    """

    rows: NDArray[np.int64]
    outputs: Any
    seconds: float


def evaluate_split(
    evaluate: Evaluate, weights: Any, dataset: ReadsRows, mesh: Mesh, rows: NDArray[np.int64] | None = None
) -> Iterator[Evaluated]:
    """Evaluate rows of a split once, in order. Each process reads its part of a batch and gets all results.

    Args:
        evaluate: A jitted evaluation step.
        weights: Weights to evaluate.
        dataset: An opened split, or an object with the same interface.
        mesh: Devices the batches are spread over.
        rows: Row numbers; None for all rows.

    Yields:
        One `Evaluated` per batch.
    """
    batch_size, placed = evaluation_batch_size(dataset, mesh), batch_sharding(mesh)
    chosen = np.arange(len(dataset), dtype=np.int64) if rows is None else rows
    gather = make_gather(mesh)
    begun = time.perf_counter()
    pending: tuple[NDArray[np.int64], Any] | None = None

    def fetched(rows: NDArray[np.int64], outputs: Any) -> Evaluated:
        nonlocal begun
        host = jax.device_get(outputs)
        now = time.perf_counter()
        seconds, begun = now - begun, now
        return Evaluated(rows, host, seconds)

    part, parts = data_part(mesh)
    batches = evaluation_batches(dataset, batch_size, chosen, process_index=part, process_count=parts)
    for start, (batch, mine) in zip(range(0, len(chosen), batch_size), batches, strict=True):
        weight = np.arange(batch_size // parts) < len(mine)
        outputs = gather(evaluate(weights, put_batch({**batch, "weight": weight}, placed)))
        if pending is not None:
            yield fetched(*pending)
        pending = (chosen[start : start + batch_size], outputs)
    if pending is not None:
        yield fetched(*pending)


def validate(
    evaluate: Evaluate,
    weights: Any,
    dataset: ReadsRows,
    mesh: Mesh,
    *,
    limit: int = 0,
    beat: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """Return metric sums over a split, by name (`trm_train.step.think`); call `beat` after every batch.

    For puzzles with several correct answers, `optimal` counts the answers that are as good as the label.
    """
    sums: dict[str, float] = {}
    rows = np.arange(min(limit, len(dataset)) if limit else len(dataset))
    count_optimal = optimal_counter(dataset)

    def only_needed(weights: Any, batch: dict[str, jax.Array]) -> Any:
        outputs = evaluate(weights, batch)
        answers = None if count_optimal is None else outputs.predictions
        return EvalOutputs(answers, None, None, outputs.metrics, None)

    for evaluated in evaluate_split(only_needed, weights, dataset, mesh, rows):
        beat()
        found = {name: float(value) for name, value in evaluated.outputs.metrics.items()}
        if count_optimal is not None:
            found["optimal"] = count_optimal(evaluated.rows, evaluated.outputs.predictions)
        for name, value in found.items():
            sums[name] = sums.get(name, 0.0) + value
    return sums


def optimal_counter(dataset: ReadsRows) -> Callable[[NDArray[np.int64], NDArray[np.integer]], int] | None:
    """Return a counter of answers as good as the label; None for mixtures and puzzles with one correct answer."""
    if not isinstance(dataset, Dataset):
        return None
    kind, spec = load_kind(dataset.manifest.kind), dataset.manifest.spec
    if not kind.has_several_answers(spec):
        return None

    def count(rows: NDArray[np.int64], answers: NDArray[np.integer]) -> int:
        batch = dataset.read(rows)
        inputs, labels = (batch[name].astype(np.uint8) for name in ("inputs", "labels"))
        scores = kind.score(spec, inputs, labels, np.asarray(answers)[: len(rows)].astype(np.uint8))
        assert scores.optimal is not None, f"kind {kind.name} has several answers and does not judge them"
        return int(np.count_nonzero(scores.optimal))

    return count


def evaluation_batch_size(dataset: ReadsRows, mesh: Mesh) -> int:
    """Return the number of rows of an evaluation batch over all devices along `data`.

    On a CPU, the activations of a batch fit into its caches.
    """
    rows = min(BATCH_EXAMPLES, len(dataset))
    if on_cpu(mesh):
        (length,) = dataset.read(np.arange(min(len(dataset), 1)))["inputs"].shape[1:]
        rows = min(rows, cached_rows(length))
    return rows * mesh.shape["data"]
