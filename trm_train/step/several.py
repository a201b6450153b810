"""Several training steps in one program with one dispatch, and rows held by the devices.

The program is a loop over one step, and the number of steps is an argument. So any grouping of steps runs the same
program on the same numbers, without recompiling. With one step per dispatch there is no loop; results are then equal up
to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int

from trm_train.state import TrainState
from trm_train.step.train import TrainStep


class Given(NamedTuple):
    """Input of a program besides the state: from the host, or as shapes. At most K steps, of B slots."""

    batch: Mapping[str, Any]
    """A batch [B, ...] if K is 1, else [K, B, ...]. If devices hold the rows, it has only their numbers, `rows`."""
    steps: Int[Array, ""] | Any = None
    """Number of the K steps to take, from the first; None if K is 1."""
    held: Mapping[str, Any] | None = None
    """Rows that devices hold, [N, ...]; None if batches contain their rows."""


def make_program(train_step: TrainStep, most: int) -> Callable[[TrainState, Given], tuple[TrainState, Any]]:
    """Make `train_steps(state, given) -> (state, metrics)`, to be jitted with the state donated.

    Args:
        train_step: From `make_train_step`.
        most: K. Above 1, metrics are [K, ...]; those of steps not taken are 0.
    """

    def take(state: TrainState, batch: Mapping[str, Any], held: Mapping[str, Any] | None) -> Any:
        if held is not None:
            batch = {name: rows[batch["rows"]] for name, rows in held.items()}
        return train_step(state, batch)

    def train_steps(state: TrainState, given: Given) -> tuple[TrainState, Any]:
        batches, steps, held = given
        if most == 1:
            return take(state, batches, held)

        def one(index: Array, taken: tuple[TrainState, Any]) -> tuple[TrainState, Any]:
            state, metrics = taken
            batch = {name: lax.dynamic_index_in_dim(x, index, keepdims=False) for name, x in batches.items()}
            state, found = take(state, batch, held)
            return state, jax.tree.map(lambda whole, value: whole.at[index].set(value), metrics, found)

        first = {name: x[0] for name, x in batches.items()}
        shapes = jax.eval_shape(take, state, first, held)[1]
        none = jax.tree.map(lambda shape: jnp.zeros((most, *shape.shape), shape.dtype), shapes)
        return lax.fori_loop(0, steps, one, (state, none))

    return train_steps
