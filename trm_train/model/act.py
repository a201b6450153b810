"""The carry of a training run and the halting of its slots (adaptive computation time).

Every slot of the batch holds one example over several supervision steps. A slot that has halted takes its
row of the next loaded batch and starts from the initial states; the others keep their own example. Terms:

    current   the example a slot works on; the loss reads its labels, never the freshly loaded ones
    steps     supervision steps the slot has spent on its current example
    halted    the slot takes a new example at the next step

Source: the TRM paper and its published code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32, UInt32

from trm_train.model.base import States

KEY_IMPLEMENTATION = "threefry2x32"
"""Implementation of the random key, which a training state stores as two words."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Carry:
    """State passed from one training step to the next; leaves are arrays (or placeholders, as in any pytree)."""

    states: States
    """States of the network, in its compute dtype."""
    steps: Any
    """int32 [B]: supervision steps taken on the current example."""
    halted: Any
    """bool [B]: whether the slot has halted."""
    current: dict[str, Any]
    """int32 `inputs` [B, S], `labels` [B, S] and `puzzle_identifiers` [B]; of a mixture also `tasks` [B]."""


def initial_carry(batch: int, cells: int, states: States, *, tasks: bool = False) -> Carry:
    """Return a carry whose slots have all halted: the first step fills every one of them from its batch.

    Args:
        batch: Number of slots, B.
        cells: Cells per row, S.
        states: Arrays or shapes, like the network's states.
        tasks: Whether to include `tasks`, which dataset of a mixture a row belongs to.
    """
    current = {
        "inputs": jnp.zeros((batch, cells), jnp.int32),
        "labels": jnp.zeros((batch, cells), jnp.int32),
        "puzzle_identifiers": jnp.zeros((batch,), jnp.int32),
    }
    if tasks:
        current["tasks"] = jnp.zeros((batch,), jnp.int32)
    return Carry(
        states=jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), states),
        steps=jnp.zeros((batch,), jnp.int32),
        halted=jnp.ones((batch,), bool),
        current=current,
    )


def refill(carry: Carry, batch: Mapping[str, Array], initial: States) -> Carry:
    """Give every halted slot i row i of the batch and the initial states; leave the others unchanged."""

    def choose(fresh: Array, held: Array) -> Array:
        halted = carry.halted.reshape(carry.halted.shape + (1,) * (held.ndim - 1))
        return jnp.where(halted, fresh.astype(held.dtype), held)

    return Carry(
        states=jax.tree.map(choose, initial, carry.states),
        steps=jnp.where(carry.halted, 0, carry.steps),
        halted=jnp.zeros_like(carry.halted),
        current={name: choose(batch[name], held) for name, held in carry.current.items()},
    )


def exploration_min_steps(
    key: UInt32[Array, " 2"],
    step: Int[Array, ""],
    slots: int,
    probability: float | Float[Array, ""],
    max_steps: int | Int[Array, ""],
) -> Int32[Array, " B"]:
    """Return the steps before which a slot may not halt: a draw from 2..max_steps with `probability`, else 1.

    Drawn for each slot at each supervision step from (key, step, slot index in the global batch). So the draws do not
    depend on how the batch is spread over devices.
    """
    if (isinstance(max_steps, int) and max_steps < 2) or (
        isinstance(probability, float) and probability == 0.0
    ):
        return jnp.ones((slots,), jnp.int32)
    step_key = jax.random.fold_in(jax.random.wrap_key_data(key, impl=KEY_IMPLEMENTATION), step)

    def draw(slot: UInt32[Array, ""]) -> Int32[Array, ""]:
        explore_key, length_key = jax.random.split(jax.random.fold_in(step_key, slot))
        at_least = jax.random.randint(length_key, (), 2, max_steps + 1, jnp.int32)
        return jnp.where(jax.random.uniform(explore_key) < probability, at_least, 1)

    return jax.vmap(draw)(jnp.arange(slots, dtype=jnp.uint32))


def halt(
    steps: Int32[Array, " B"],
    margin: Float[Array, " B"],
    min_steps: Int32[Array, " B"],
    max_steps: int | Int[Array, ""],
) -> Bool[Array, " B"]:
    """Return whether a slot halts after `steps` (this step included): out of steps, or confident (margin > 0)."""
    return (steps >= max_steps) | ((margin > 0) & (steps >= min_steps))
