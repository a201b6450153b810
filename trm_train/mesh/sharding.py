"""How state and batch lie over the devices: one mesh with the axes `data` and `model`, one table.

Nothing here changes numbers; a run may go on with another mesh. Several processes work the same way: the
mesh is over all devices of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from trm_train.errors import ConfigError

State = TypeVar("State")
"""A training state: a dataclass with the fields of `LAYOUT`."""

LAYOUT = {
    # field of the training state: how each of its leaves is split
    "params": P(),
    "opt_state": P(),  # [moments as their parameters, a count]
    "ema": P(),
    "puzzle_table": P("model"),  # [R, N], by rows; replicated when the axis has one device
    "fixed": P(),
    "carry": P("data"),  # every leaf starts with B
    "step": P(),
    "key": P(),
}
BATCH = P("data")
"""Every array of a batch starts with B."""


def make_mesh(model_parallel: int = 1, devices: Sequence[Any] | None = None) -> Mesh:
    """A mesh over devices, all of them by default: `model_parallel` along `model`, the others along `data`.

    Raises:
        ConfigError: The number of devices is not a multiple of `model_parallel`.
    """
    # Those of a process stand together, so that it loads one stretch of a batch.
    chosen = np.array(sorted(devices or jax.devices(), key=lambda device: device.process_index))
    if model_parallel < 1 or chosen.size % model_parallel:
        raise ConfigError(
            f"execution.model_parallel: expected a divisor of {chosen.size} devices, got {model_parallel}"
        )
    grid = chosen.reshape(chosen.size // model_parallel, model_parallel)
    return Mesh(grid, ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))


def state_shardings(mesh: Mesh, state: State) -> State:
    """The tree of `state` with a sharding in place of every leaf."""
    placed = {
        name: jax.tree.map(lambda _, spec=spec: NamedSharding(mesh, spec), getattr(state, name))
        for name, spec in LAYOUT.items()
    }
    return type(state)(**placed)


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Of every array in a batch, and of every per-row output of an evaluation."""
    return NamedSharding(mesh, BATCH)


def data_part(mesh: Mesh) -> tuple[int, int]:
    """Which part of every batch this process loads, and how many parts there are.

    Processes that share a part, because `model` spans them, load the same rows.

    Raises:
        ConfigError: Its devices hold no such part.
    """
    mine = [any(device.process_index == jax.process_index() for device in line) for line in mesh.devices]
    held, total = sum(mine), len(mine)
    first = mine.index(True)
    if not all(mine[first : first + held]) or total % held or first % held:
        raise ConfigError(
            f"execution.model_parallel {mesh.shape['model']}: the devices of a process must hold a part of their own "
            f"of the {total} devices along the mesh axis data, or share one"
        )
    return first // held, total // held


def replicated(mesh: Mesh) -> NamedSharding:
    """The same on every device: metrics, parameters."""
    return NamedSharding(mesh, P())


def jit_train_step(train_step: Callable[..., Any], mesh: Mesh, state: Any) -> Callable[..., Any]:
    """Compiles a training step over the mesh; the state it is given is donated.

    Args:
        train_step: From `make_train_step`.
        mesh: From `make_mesh`.
        state: The state, or its shapes.
    """
    shardings = state_shardings(mesh, state)
    return jax.jit(
        train_step,
        in_shardings=(shardings, batch_sharding(mesh)),
        out_shardings=(shardings, replicated(mesh)),
        donate_argnums=0,
    )


def make_greatest(mesh: Mesh) -> Callable[[int], jax.Array]:
    """Makes what tells the greatest of the numbers that the processes give, to all of them at the same call."""
    placed = NamedSharding(mesh, P(mesh.axis_names))
    greatest = jax.jit(jnp.max, out_shardings=replicated(mesh))

    def ask(number: int) -> jax.Array:
        mine = np.full(len(mesh.local_devices), number, np.int32)
        return greatest(jax.make_array_from_process_local_data(placed, mine))

    return ask


@cache
def make_gather(mesh: Mesh) -> Callable[[Any], Any]:
    """Makes what gives every process all rows of arrays that lie over several, as one process has them anyway."""
    if jax.process_count() == 1:
        return lambda arrays: arrays
    return jax.jit(lambda arrays: arrays, out_shardings=replicated(mesh))


def put_batch(batch: Mapping[str, np.ndarray], placed: NamedSharding) -> dict[str, jax.Array]:
    """This host's slice of a batch as part of the global arrays."""
    return {name: jax.make_array_from_process_local_data(placed, values) for name, values in batch.items()}
