"""Answers of a run's weights for rows of a split: restores, compiles, and runs batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh
from numpy.typing import NDArray

from trm_data.storage.store import Folder
from trm_eval.identity import EvalRequest, Precision
from trm_eval.rollout import Inferred, RowReader, answer_fixed, answer_halting, answer_sampled
from trm_train.checkpoint.manager import restore_weights
from trm_train.checkpoint.tree import choose_weights, weights_tree
from trm_train.mesh import batch_sharding, make_gather, make_mesh, replicated
from trm_train.runs.record import RunRecord
from trm_train.runs.resume import check_same_run
from trm_train.state import Weights, abstract_weights
from trm_train.step.evaluate import make_eval_step
from trm_train.step.sample import empty_slots, make_halting_step, make_sample_step
from trm_train.training.validate import evaluation_batch_size


@dataclass(frozen=True)
class LoadedNetwork:
    """Weights of a run on a mesh, and their network."""

    record: RunRecord
    mesh: Mesh
    model: nnx.GraphDef
    weights: Weights


def restore(
    run: Folder, record: RunRecord, *, step: int, weights: str, precision: Precision | None = None
) -> LoadedNetwork:
    """Restore the weights of a checkpoint.

    Args:
        run: The run's folder.
        record: Record of the run.
        step: Step of the checkpoint.
        weights: `ema` or `raw`.
        precision: Compute dtype of the network; None for that of training. Weights are float32 in both cases.
    """
    mesh = make_mesh()
    config = record.config
    if precision is not None:
        config = replace(config, model=replace(config.model, forward_dtype=precision))
    model, shapes = abstract_weights(config, record.input_spec, mesh)
    tree, meta = restore_weights(run, step, weights_tree(shapes))
    check_same_run(record, meta, run.place)
    return LoadedNetwork(record, mesh, model, choose_weights(tree, weights))


def on_this_host(restored: LoadedNetwork) -> LoadedNetwork:
    """Return the same weights on the local devices only, so that work with them needs no other process.

    All processes must call it, because none may hold the whole puzzle table.
    """
    if jax.process_count() == 1:
        return restored
    mesh, whole = make_mesh(devices=jax.local_devices()), make_gather(restored.mesh)(restored.weights)
    weights = jax.tree.map(lambda leaf: leaf.addressable_data(0), whole)
    return replace(restored, mesh=mesh, weights=jax.device_put(weights, replicated(mesh)))


Answerer = Callable[[NDArray[np.int64]], Iterator[Inferred]]
"""Answers row numbers of a split, in order."""


def compile_rollout(
    restored: LoadedNetwork, reader: RowReader, request: EvalRequest, supervision_steps: int
) -> Answerer:
    """Compile the program that answers rows as requested.

    Args:
        restored: Restored weights.
        reader: Reader of the split.
        request: Request of the evaluation.
        supervision_steps: Maximum number of supervision steps per row.
    """
    config, spec = restored.record.config, restored.record.input_spec
    mesh, model, weights = restored.mesh, restored.model, restored.weights
    size = evaluation_batch_size(reader, mesh)
    batch = reader.shapes(size, batch_sharding(mesh))

    if request.sampling is not None:
        sampling = request.sampling
        step: Any = make_sample_step(
            config,
            spec,
            model,
            steps=supervision_steps,
            samples=sampling.samples,
            noise=sampling.noise,
            seed=sampling.seed,
            random_start=request.latent_init == "random",
            depths=request.depths,
            mesh=mesh,
        )
        program = jax.jit(step).lower(weights, batch).compile()
        return lambda rows: answer_sampled(
            program,
            weights,
            reader,
            rows,
            mesh,
            supervision_steps=supervision_steps,
            selection=sampling.selection,
            depths=request.depths,
        )
    if request.mode == "halting":
        del batch["weight"]
        step = make_halting_step(config, spec, model, max_steps=supervision_steps, mesh=mesh)
        slots = jax.jit(
            lambda weights: empty_slots(weights, model, size, spec.sequence_length),
            out_shardings=batch_sharding(mesh),
        )
        carry = slots(weights)
        program = jax.jit(step, donate_argnums=1).lower(weights, carry, batch).compile()
        return lambda rows: answer_halting(program, weights, slots(weights), reader, rows, mesh, slots=size)
    step = make_eval_step(config, spec, model, steps=supervision_steps, by_step=True, mesh=mesh)
    program = jax.jit(step).lower(weights, batch).compile()
    return lambda rows: answer_fixed(program, weights, reader, rows, mesh)
