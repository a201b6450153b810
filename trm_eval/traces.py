"""Writes every cycle of the recursion as parts of the table `traces`, for the requested rows.

As for predictions, a part counts only if its evaluation's row, which is written last, refers to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trm_data.loader.pipeline import evaluation_batches
from trm_data.storage.atomic import digest_of
from trm_data.storage.root import Layout
from trm_eval.infer import LoadedNetwork
from trm_eval.predictions import labelled_cells, wrong_cells
from trm_eval.rollout import RowReader
from trm_eval.tables.writer import token_lists, write_table
from trm_train.mesh import batch_sharding, put_batch
from trm_train.step.evaluate import Trace, make_trace_step

BATCH_EXAMPLES = 32
"""Rows of a batch; small, because memory holds their latent states after every cycle."""
PART_BYTES = 64 << 20
"""Size of the rows in memory from which a part is written (bytes)."""


def write_traces(
    layout: Layout,
    restored: LoadedNetwork,
    reader: RowReader,
    rows: NDArray[np.int64],
    evaluation: str,
    *,
    supervision_steps: int,
    with_latents: bool,
) -> dict[str, list[str]]:
    """Answer rows again with tracing, and write the traces.

    Args:
        layout: The root.
        restored: Restored weights.
        reader: Reader of the split.
        rows: Row numbers.
        evaluation: Id of the evaluation; names of parts start with it.
        supervision_steps: Number of supervision steps per row.
        with_latents: Whether to write the latent states too.

    Returns:
        The columns of its row in `evals` that refer to the parts; empty without rows.
    """
    if not len(rows):
        return {}
    record = restored.record
    digests: dict[str, str] = {}
    pending: list[pa.Table] = []

    def write() -> None:
        part = f"{evaluation}-{len(digests):05d}"
        table = pa.concat_tables(pending)
        pending.clear()
        table = table.append_column("part", pa.array([part] * len(table)))
        table = table.append_column("evaluation", pa.array([evaluation] * len(table)))
        name = write_table(layout, "traces", record.experiment, record.run, part, table)
        digests[part] = digest_of(name) or ""

    for table in _tables(restored, reader, rows, supervision_steps, with_latents=with_latents):
        pending.append(table)
        if sum(waiting.nbytes for waiting in pending) >= PART_BYTES:
            write()
    if pending:
        write()
    return {"trace_parts": list(digests), "trace_digests": list(digests.values())}


def _tables(
    restored: LoadedNetwork,
    reader: RowReader,
    rows: NDArray[np.int64],
    supervision_steps: int,
    *,
    with_latents: bool,
) -> Iterator[pa.Table]:
    """Yield the traces of a batch of rows, in order of row, step and cycle."""
    record = restored.record
    step = make_trace_step(
        record.config,
        record.input_spec,
        restored.model,
        steps=supervision_steps,
        with_latents=with_latents,
        mesh=restored.mesh,
    )
    placed = batch_sharding(restored.mesh)
    program = jax.jit(step)
    size = min(BATCH_EXAMPLES, len(rows))
    size = -(-size // restored.mesh.shape["data"]) * restored.mesh.shape["data"]
    for batch, some in evaluation_batches(reader, size, rows):
        labels = reader.decode(batch["labels"][: len(some)])
        trace = jax.device_get(program(restored.weights, put_batch(batch, placed)))
        yield _table(some, labels, replace(trace, predictions=reader.decode(trace.predictions)))


def _table(rows: NDArray[np.int64], labels: NDArray[np.uint8], trace: Trace) -> pa.Table:
    """Return the columns for n rows, T steps of C cycles each: n * T * C records."""
    steps, cycles, _, cells = trace.predictions.shape
    count, records = len(rows), len(rows) * steps * cycles

    def by_row(leaf: NDArray[Any]) -> NDArray[Any]:
        """Reshape [T, C, B, ...] to [n * T * C, ...]."""
        return np.moveaxis(leaf[:, :, :count], 2, 0).reshape(records, *leaf.shape[3:])

    answers, truth = by_row(trace.predictions), np.repeat(labels, steps * cycles, axis=0)
    wrong, labelled = wrong_cells(answers, truth), labelled_cells(truth) > 0
    columns = {
        "row": np.repeat(rows, steps * cycles),
        "supervision_step": np.tile(np.repeat(np.arange(1, steps + 1, dtype=np.int32), cycles), count),
        "cycle": np.tile(np.arange(1, cycles + 1, dtype=np.int32), count * steps),
        "exact": pa.array(wrong == 0, mask=~labelled),
        "wrong_cells": wrong,
        "q_halt_logit": by_row(trace.q_halt_logits),
        "halt_margin": by_row(trace.margins),
        "answer": token_lists(answers.reshape(records, cells)),
    }
    latents = {name: by_row(leaf) for name, leaf in sorted(trace.latents.items())}
    if not latents:
        nothing = {
            "latents": pa.binary(),
            "latent_names": pa.list_(pa.string()),
            "latent_shape": pa.list_(pa.int32()),
        }
        return pa.table({**columns, **{name: pa.nulls(records, kind) for name, kind in nothing.items()}})
    stacked = np.stack(list(latents.values()), axis=1).astype("<f2")  # [records, states, L, D]
    return pa.table(
        {
            **columns,
            "latents": pa.array([record.tobytes() for record in stacked], pa.binary()),
            "latent_names": pa.array([list(latents)] * records, pa.list_(pa.string())),
            "latent_shape": pa.array([list(stacked.shape[1:])] * records, pa.list_(pa.int32())),
        }
    )
