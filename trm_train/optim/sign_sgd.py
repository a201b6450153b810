"""Sign-SGD with decay on the rows of the puzzle-embedding table that occur in a batch.

The gradient exists per slot only; slots with the same identifier are summed first. Work and memory grow
with the batch, never with the table.
Source: the TRM paper and its published code.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32


def sign_sgd(
    table: Float[Array, "R N"],
    slot_grads: Float[Array, "B N"],
    identifiers: Int32[Array, " B"],
    learning_rate: Float[Array, ""],
    weight_decay: float,
) -> Float[Array, "R N"]:
    """The table after one step: row (1 - lr wd) - lr sign(sum of its slots' gradients).

    A sum of exactly zero still decays its row; rows of no slot do not change.

    Args:
        table: The puzzle-embedding table.
        slot_grads: Gradient of the loss with respect to the row each slot looked up.
        identifiers: Of the slots' current examples.
        learning_rate: At this step.
        weight_decay: Times the learning rate, of the rows in this batch.
    """
    slots, past_the_end = identifiers.shape[0], table.shape[0]
    rows, segment = jnp.unique(identifiers, return_inverse=True, size=slots, fill_value=past_the_end)
    summed = jax.ops.segment_sum(slot_grads, segment, num_segments=slots)
    held = table.at[rows].get(mode="fill", fill_value=0.0, indices_are_sorted=True)
    updated = held * (1.0 - learning_rate * weight_decay) - learning_rate * jnp.sign(summed)
    return table.at[rows].set(updated, mode="drop", indices_are_sorted=True)
