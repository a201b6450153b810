"""Shared by the steps: the batch that is their input, the recursion of an evaluation, and metrics as sums over slots.

A batch is a dict of `inputs` and `labels` (any integer dtype, [B, S]) and `puzzle_identifiers` (int32 [B]). For a
mixture it also has `tasks` (int32 [B]), the position of each row's dataset in the mixture.
For evaluation it may have `weight` (bool [B]), False for padding rows. Each device computes its own rows.

Metrics are sums and counts; reports divide them once, at the end. `count`, `accuracy`, `exact_accuracy`,
`q_halt_accuracy`, `steps` and `steps_squared` are sums over the counted slots: those that halted at this step and have
labels. The loss sums are over all slots (in evaluation, all rows except padding). Training divides them by the global
batch, evaluation by `count`.
Source: the TRM paper and its published code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int32

from trm_train.mesh import BATCH, whole
from trm_train.model.base import States, merge
from trm_train.objective import Losses
from trm_train.state import Weights

Think = Callable[[States, Array, Array | None], States]
"""`Network.think` for the rows of all devices, from states, inputs [B, S] and rows of the puzzle table [B, N]."""


def make_think(model: nnx.GraphDef, weights: Weights, mesh: Mesh | None) -> Think:
    """Return `Network.think` with the rows split over the devices of a mesh.

    `shard_map` is needed because XLA cannot split a Pallas kernel, such as splash attention.

    Args:
        model: Definition from `init_state`.
        weights: Weights of the network; parameters may be split over the devices.
        mesh: Mesh that rows are spread over; None for one device.
    """
    params = whole(weights.params, mesh)
    if mesh is None or mesh.size == 1:
        return merge(model, params, weights.fixed, weights.puzzle_table).think

    def mine(params: Any, fixed: Any, states: States, inputs: Array, rows: Array | None) -> States:
        # The rows are already looked up, so the network of a device needs no table.
        table = None if rows is None else jnp.zeros((0, rows.shape[1]), rows.dtype)
        return merge(model, params, fixed, table).think(states, inputs, rows)

    # What is split along `data` only is the same along `model`.
    spread = jax.shard_map(
        mine, mesh=mesh, in_specs=(P(), P(), BATCH, BATCH, BATCH), out_specs=BATCH, check_vma=False
    )
    return lambda states, inputs, rows: spread(params, weights.fixed, states, inputs, rows)


Batch = Mapping[str, Array]


Metrics = dict[str, Array]


def metric_sums(
    losses: Losses,
    q_halt: Float[Array, " B"],
    steps: Int32[Array, " B"],
    counted: Bool[Array, " B"],
    weight: Bool[Array, " B"] | None = None,
) -> Metrics:
    """Return sums over the batch, to be divided by `count`; losses are over all slots, in training by the global batch.

    Args:
        losses: Losses of every slot.
        q_halt: Halting logits.
        steps: Number of supervision steps that each slot has spent on its example.
        counted: Slots to count (halted at this step); slots without labels are excluded here.
        weight: True for real rows; other rows add nothing. None for all real.

    Returns:
        `count`, `exact_accuracy`, `q_halt_accuracy`, `steps`, `steps_squared` as int32 and `accuracy`, `lm_loss`,
        `q_halt_loss` as float32 scalars.
    """
    return {
        name: jnp.sum(each, dtype=each.dtype)
        for name, each in _by_slot(losses, q_halt, steps, counted, weight).items()
    }


def sums_by_task(
    losses: Losses,
    q_halt: Float[Array, " B"],
    steps: Int32[Array, " B"],
    counted: Bool[Array, " B"],
    tasks: Int32[Array, " B"],
    number: int,
) -> Metrics:
    """Return the same sums over the slots of each task, [number], and `slots`, the number of its slots.

    Uses masked sums, because a scatter of floats adds in an unspecified order on a GPU.
    """
    mine = tasks[None, :] == jnp.arange(number, dtype=jnp.int32)[:, None]
    by_slot = _by_slot(losses, q_halt, steps, counted, None) | {"slots": jnp.ones_like(tasks)}
    return {
        name: jnp.sum(jnp.where(mine, each[None, :], jnp.zeros((), each.dtype)), axis=1, dtype=each.dtype)
        for name, each in by_slot.items()
    }


def _by_slot(
    losses: Losses,
    q_halt: Float[Array, " B"],
    steps: Int32[Array, " B"],
    counted: Bool[Array, " B"],
    weight: Bool[Array, " B"] | None,
) -> dict[str, Array]:
    """Return the contribution of each slot to each sum."""
    real = jnp.ones_like(counted) if weight is None else weight
    counted = counted & real & (losses.labelled > 0)
    cells = losses.correct.astype(jnp.float32) / jnp.maximum(losses.labelled, 1).astype(jnp.float32)
    return {
        "count": counted.astype(jnp.int32),
        "accuracy": jnp.where(counted, cells, 0.0),
        "exact_accuracy": (counted & losses.right).astype(jnp.int32),
        "q_halt_accuracy": (counted & ((q_halt >= 0) == losses.right)).astype(jnp.int32),
        "steps": jnp.where(counted, steps, 0),
        "steps_squared": jnp.where(counted, steps**2, 0),
        "lm_loss": jnp.where(real, losses.lm, 0.0),
        "q_halt_loss": jnp.where(real, losses.q_halt, 0.0),
    }
