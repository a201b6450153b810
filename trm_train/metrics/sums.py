"""Metrics as sums and counts over slots; whoever reports them divides, once, at the end.

`count`, `accuracy`, `exact_accuracy`, `q_halt_accuracy`, `steps` and `steps_squared` sum over the counted slots: those
that halted at this step and have labels. The loss sums are over all slots (in evaluation: all rows that are no
padding); training divides them by the global batch, evaluation by `count`.
Source: the TRM paper and its published code.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32

from trm_train.objective import Losses

Metrics = dict[str, Array]

COUNTED = ("accuracy", "exact_accuracy", "q_halt_accuracy", "steps")
"""Sums to be divided by `count`."""
LOSSES = ("lm_loss", "q_halt_loss")
"""Sums over all slots, to be divided by the global batch in training and by `count` in evaluation."""


def metric_sums(
    losses: Losses,
    q_halt: Float[Array, " B"],
    steps: Int32[Array, " B"],
    counted: Bool[Array, " B"],
    weight: Bool[Array, " B"] | None = None,
) -> Metrics:
    """Sums over the batch.

    Args:
        losses: Of every slot.
        q_halt: Halting logits.
        steps: Supervision steps each slot has spent on its example.
        counted: Slots that count (halted at this step); those without labels are left out here.
        weight: Rows that are real, None for all; the others add to nothing.

    Returns:
        `count`, `exact_accuracy`, `q_halt_accuracy`, `steps`, `steps_squared` as int32 and `accuracy`, `lm_loss`,
        `q_halt_loss` as float32 scalars.
    """
    real = jnp.ones_like(counted) if weight is None else weight
    counted = counted & real & (losses.labelled > 0)
    cells = losses.correct.astype(jnp.float32) / jnp.maximum(losses.labelled, 1).astype(jnp.float32)

    def number(where: Bool[Array, " B"]) -> Int32[Array, ""]:
        return jnp.sum(where, dtype=jnp.int32)

    return {
        "count": number(counted),
        "accuracy": jnp.sum(jnp.where(counted, cells, 0.0)),
        "exact_accuracy": number(counted & losses.right),
        "q_halt_accuracy": number(counted & ((q_halt >= 0) == losses.right)),
        "steps": jnp.sum(jnp.where(counted, steps, 0), dtype=jnp.int32),
        "steps_squared": jnp.sum(jnp.where(counted, steps**2, 0), dtype=jnp.int32),
        "lm_loss": jnp.sum(jnp.where(real, losses.lm, 0.0)),
        "q_halt_loss": jnp.sum(jnp.where(real, losses.q_halt, 0.0)),
    }
