"""Training loss: cross-entropy of the cells (stablemax or softmax) and binary cross-entropy of halting.

Everything is computed in float32, per slot; sums over the batch come last.
Source: the TRM paper and its published code.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32

from trm_train.config.optim import CellLoss

HALT_LOSS_WEIGHT = 0.5


class Losses(NamedTuple):
    """Losses and inputs of the metrics, one entry per slot."""

    lm: Float[Array, " B"]
    """Mean cross-entropy over the labelled cells; 0 if there are none."""
    q_halt: Float[Array, " B"]
    """Cross-entropy of the halting logit against `right`."""
    labelled: Int32[Array, " B"]
    """Number of labelled cells."""
    correct: Int32[Array, " B"]
    """Number of correct labelled cells."""
    predictions: Int32[Array, "B S"]
    q_continue: Float[Array, " B"] | None = None
    """Cross-entropy of the continue logit against its target; None without the continue loss."""
    continue_target: Float[Array, " B"] | None = None
    """Target of the continue logit, from 0 to 1; None without the continue loss."""
    added: Float[Array, " B"] | None = None
    """Additional weighted loss terms; None if there are none."""
    weight: Float[Array, " B"] | None = None
    """Weight of a slot in the total; None for equal weights."""

    @property
    def right(self) -> Bool[Array, " B"]:
        """Whether every labelled cell is correct; True for a row without labels, as in the published loss."""
        return self.correct == self.labelled

    def total(self) -> Float[Array, ""]:
        """Return the sum of all losses over the slots; training minimises it divided by the global batch."""
        weight = jnp.float32(1.0) if self.weight is None else self.weight
        total = jnp.sum(self.lm * weight) + HALT_LOSS_WEIGHT * jnp.sum(self.q_halt * weight)
        if self.q_continue is not None:
            total = total + HALT_LOSS_WEIGHT * jnp.sum(self.q_continue * weight)
        return total if self.added is None else total + jnp.sum(self.added * weight)


def log_stablemax(logits: Float[Array, "... V"]) -> Float[Array, "... V"]:
    """Return the log-probabilities log(s / sum s), with s = x + 1 for x >= 0 and 1 / (1 - x) below.

    The minimum keeps the unused branch away from its pole at x = 1, where its gradient would be NaN; NaN times zero is
    NaN again.
    """
    x = logits.astype(jnp.float32)
    s = jnp.where(x >= 0, x + 1.0, 1.0 / (1.0 - jnp.minimum(x, 0.0)))
    return jnp.log(s) - jnp.log(jnp.sum(s, axis=-1, keepdims=True))


def log_probabilities(logits: Float[Array, "... V"], cells: CellLoss) -> Float[Array, "... V"]:
    """Return the log-probabilities of the symbols, float32."""
    if cells == "softmax":
        return jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    return log_stablemax(logits)


def binary_cross_entropy(
    logits: Float[Array, " B"], target: Bool[Array, " B"] | Float[Array, " B"]
) -> Float[Array, " B"]:
    """Return the cross-entropy of sigmoid(logits) against a target from 0 to 1."""
    return jax.nn.softplus(logits) - logits * target.astype(logits.dtype)


def continue_target(
    next_q_logits: Float[Array, "B 2"], out_of_steps: Bool[Array, " B"]
) -> Float[Array, " B"]:
    """Return the value of continuing: the better of both logits after one more supervision step, as a probability.

    Args:
        next_q_logits: Halt and continue logits after one more supervision step.
        out_of_steps: Slots that must halt after that step, so that only its halt logit counts.
    """
    q_halt, q_continue = next_q_logits[:, 0], next_q_logits[:, 1]
    return jax.nn.sigmoid(jnp.where(out_of_steps, q_halt, jnp.maximum(q_halt, q_continue)))


def slot_losses(
    logits: Float[Array, "B S V"],
    q_halt: Float[Array, " B"],
    labels: Int[Array, "B S"],
    ignore_label: int,
    cells: CellLoss = "stablemax",
) -> Losses:
    """Return the losses of every slot against the labels of its current example.

    Args:
        logits: Logits of the cells, in any float dtype.
        q_halt: Halting logits, float32.
        labels: Labels of the current examples, int32.
        ignore_label: Label of cells that add nothing.
        cells: Function that maps logits to probabilities.
    """
    mask = labels != ignore_label
    labelled = jnp.sum(mask, axis=-1, dtype=jnp.int32)
    target = jnp.where(mask, labels, 0)
    log_prob = jnp.take_along_axis(log_probabilities(logits, cells), target[..., None], axis=-1)[..., 0]
    lm = jnp.sum(jnp.where(mask, -log_prob, 0.0), axis=-1) / jnp.maximum(labelled, 1).astype(jnp.float32)

    predictions = jnp.argmax(logits, axis=-1).astype(jnp.int32)
    correct = jnp.sum(mask & (predictions == labels), axis=-1, dtype=jnp.int32)
    return Losses(
        lm=lm,
        q_halt=binary_cross_entropy(q_halt, correct == labelled),
        labelled=labelled,
        correct=correct,
        predictions=predictions,
    )
