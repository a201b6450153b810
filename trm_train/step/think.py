"""The recursion of an evaluation, each device on its own rows; and the batch that is the input of every step.

A batch is a dict of `inputs` and `labels` (any integer dtype, [B, S]) and `puzzle_identifiers` (int32 [B]). For a
mixture it also has `tasks` (int32 [B]), the position of each row's dataset in the mixture.
For evaluation it may have `weight` (bool [B]), False for padding rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array

from trm_train.mesh.sharding import BATCH, whole
from trm_train.model.base import States, merge
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
