"""Sign-SGD with weight decay on the puzzle-embedding rows that occur in a batch.

Work and memory grow with the batch, not with the table.
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
    """Return the table after one step: row (1 - lr wd) - lr sign(sum of its slots' gradients).

    The gradient is given per slot; slots with the same identifier are summed first. Work and memory grow with the
    batch, not with the table. A row whose sum is exactly zero still decays; rows without a slot do not change.

    Args:
        table: Puzzle-embedding table.
        slot_grads: Gradient of the loss with respect to the row that each slot looked up.
        identifiers: Identifiers of the slots' current examples.
        learning_rate: Learning rate at this step.
        weight_decay: Decay of the rows in this batch, multiplied by the learning rate.
    """
    slots, past_the_end = identifiers.shape[0], table.shape[0]
    rows, segment = jnp.unique(identifiers, return_inverse=True, size=slots, fill_value=past_the_end)
    summed = jax.ops.segment_sum(slot_grads, segment, num_segments=slots)
    held = table.at[rows].get(mode="fill", fill_value=0.0, indices_are_sorted=True)
    updated = held * (1.0 - learning_rate * weight_decay) - learning_rate * jnp.sign(summed)
    return table.at[rows].set(updated, mode="drop", indices_are_sorted=True)
