"""Sharding of state and batch over one mesh with the axes `data` and `model`.

Sharding does not change numerical results, so a run may resume on another mesh. With several processes, the mesh
covers all devices of all processes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from trm_train.errors import ConfigError
from trm_train.mesh.table import rows_spec

State = TypeVar("State")
"""A training state: a dataclass with the fields of `SPECS`."""

BATCH = P("data")
"""Spec of every array of a batch: its first axis is B."""


def _everywhere(_: Mesh, shape: tuple[int, ...]) -> P:
    return P()


SPECS: dict[str, Callable[[Mesh, tuple[int, ...]], P]] = {
    # field of the training state: how a leaf of a given shape is split
    "params": _everywhere,
    "opt_state": _everywhere,  # [moments as their parameters, a count]
    "ema": _everywhere,
    "puzzle_table": lambda mesh, shape: rows_spec(mesh, shape[0]),  # [R, N]
    "fixed": _everywhere,
    "carry": lambda mesh, shape: BATCH,  # every leaf starts with B
    "step": _everywhere,
    "key": _everywhere,
}
"""Spec of each field. With `shard_parameters`, `split_spec` replaces the first three."""


def make_mesh(model_parallel: int = 1, devices: Sequence[Any] | None = None) -> Mesh:
    """Return a mesh of devices (default: all): `model_parallel` along `model`, the rest along `data`."""
    # Devices of a process are neighbours, so that it loads one contiguous part of a batch.
    chosen = np.array(sorted(devices or jax.devices(), key=lambda device: device.process_index))
    if model_parallel < 1 or chosen.size % model_parallel:
        raise ConfigError(
            f"execution.model_parallel: not a divisor of the number of devices (got {model_parallel}; "
            f"expected a divisor of {chosen.size})."
        )
    grid = chosen.reshape(chosen.size // model_parallel, model_parallel)
    return Mesh(grid, ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))


def state_shardings(mesh: Mesh, state: State, *, shard_parameters: bool = False) -> State:
    """Return the tree of `state` with a sharding in place of every leaf.

    Args:
        mesh: From `make_mesh`.
        state: Training state, or its shapes.
        shard_parameters: Split parameters, optimizer state and EMA over the devices; otherwise each device has all.
    """
    placed = {
        name: shardings(mesh, name, getattr(state, name), shard_parameters=shard_parameters) for name in SPECS
    }
    return type(state)(**placed)


def shardings(mesh: Mesh, field: str, tree: Any, *, shard_parameters: bool = False) -> Any:
    """Return the shardings of one field of the training state."""
    by_parameters = field in ("params", "opt_state", "ema")
    spec = split_spec if by_parameters and shard_parameters else SPECS[field]
    return jax.tree.map(lambda leaf: NamedSharding(mesh, spec(mesh, leaf.shape)), tree)


def split_spec(mesh: Mesh, shape: tuple[int, ...]) -> P:
    """Return the spec that splits a parameter along its longest axis divisible by the devices; replicated if none."""
    for axes in (mesh.axis_names, ("data",)):
        devices = math.prod(mesh.shape[axis] for axis in axes)
        fitting = [axis for axis, length in enumerate(shape) if length % devices == 0]
        if fitting:
            longest = max(fitting, key=lambda axis: shape[axis])
            return P(*(axes if axis == longest else None for axis in range(longest + 1)))
    return P()


def whole(params: Any, mesh: Mesh | None) -> Any:
    """Return parameters replicated on every device: gathered once, at the start of a step."""
    if mesh is None or mesh.size == 1:
        return params
    return jax.lax.with_sharding_constraint(params, replicated(mesh))


def add_up(tree: Any, mesh: Mesh, *, split: bool) -> Any:
    """Sum the gradients of all devices over `data`, inside `shard_map`; `added_specs` gives the layout.

    Args:
        tree: Gradients, shaped as parameters.
        mesh: From `make_mesh`.
        split: Each device gets its part of the sum; otherwise all of it.
    """

    def one(leaf: Any) -> Any:
        axis = _split_axis(mesh, leaf.shape) if split else None
        if axis is None:
            return jax.lax.psum(leaf, "data")
        return jax.lax.psum_scatter(leaf, "data", scatter_dimension=axis, tiled=True)

    return jax.tree.map(one, tree)


def added_specs(tree: Any, mesh: Mesh, *, split: bool) -> Any:
    """Return the specs of the result of `add_up` over `data`."""

    def one(leaf: Any) -> P:
        axis = _split_axis(mesh, leaf.shape) if split else None
        return P() if axis is None else P(*(None for _ in range(axis)), "data")

    return jax.tree.map(one, tree)


def _split_axis(mesh: Mesh, shape: tuple[int, ...]) -> int | None:
    """Return the axis that `split_spec` splits, or None."""
    spec = split_spec(mesh, shape)
    return len(spec) - 1 if len(spec) else None


def split_parameters(tree: Any, mesh: Mesh | None) -> Any:
    """Split a tree shaped as parameters as `split_spec` says."""
    if mesh is None or mesh.size == 1:
        return tree
    placed = jax.tree.map(lambda leaf: NamedSharding(mesh, split_spec(mesh, leaf.shape)), tree)
    return jax.lax.with_sharding_constraint(tree, placed)


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Return the sharding of every array in a batch, and of every per-row output of an evaluation."""
    return NamedSharding(mesh, BATCH)


def batches_sharding(mesh: Mesh) -> NamedSharding:
    """Return the sharding of every array of several batches, [K, B, ...]."""
    return NamedSharding(mesh, P(None, *BATCH))


def data_part(mesh: Mesh) -> tuple[int, int]:
    """Return the number of the batch part that this process loads, and the number of parts.

    Processes that share a part, because `model` spans them, load the same rows.
    """
    mine = [any(device.process_index == jax.process_index() for device in line) for line in mesh.devices]
    held, total = sum(mine), len(mine)
    first = mine.index(True)
    if not all(mine[first : first + held]) or total % held or first % held:
        raise ConfigError(
            f"execution.model_parallel: a process shares part of the mesh axis data with another (got "
            f"{mesh.shape['model']}; the axis has {total} devices). Choose a divisor or a "
            "multiple of the number of devices of a process."
        )
    return first // held, total // held


def replicated(mesh: Mesh) -> NamedSharding:
    """Return the sharding that replicates an array on every device: metrics, parameters."""
    return NamedSharding(mesh, P())


def jit_train_step(
    train_step: Callable[..., Any], mesh: Mesh, state: Any, given: Any = None
) -> Callable[..., Any]:
    """Compile a training step over the mesh; its input state is donated.

    Args:
        train_step: From `make_train_step`, or `make_program`.
        mesh: From `make_mesh`.
        state: State on the mesh, or its shapes with shardings.
        given: Shardings of the other input; None for a batch.
    """
    placed = jax.tree.map(lambda leaf: leaf.sharding, state)
    return jax.jit(
        train_step,
        in_shardings=(placed, batch_sharding(mesh) if given is None else given),
        out_shardings=(placed, replicated(mesh)),
        donate_argnums=0,
    )


def make_greatest(mesh: Mesh) -> Callable[[int], jax.Array]:
    """Return a function that gives all processes the maximum of the numbers they pass in the same call."""
    placed = NamedSharding(mesh, P(mesh.axis_names))
    greatest = jax.jit(jnp.max, out_shardings=replicated(mesh))

    def ask(number: int) -> jax.Array:
        mine = np.full(len(mesh.local_devices), number, np.int32)
        return greatest(jax.make_array_from_process_local_data(placed, mine))

    return ask


@cache
def make_gather(mesh: Mesh) -> Callable[[Any], Any]:
    """Return a function that gives every process all rows of arrays sharded over several processes."""
    if jax.process_count() == 1:
        return lambda arrays: arrays
    return jax.jit(lambda arrays: arrays, out_shardings=replicated(mesh))


def put_batch(batch: Mapping[str, np.ndarray], placed: NamedSharding) -> dict[str, jax.Array]:
    """Put this host's part of a batch (or similar arrays) on the devices, as part of the global arrays."""
    if jax.process_count() == 1:
        return jax.device_put(dict(batch), placed)
    return {name: jax.make_array_from_process_local_data(placed, values) for name, values in batch.items()}
