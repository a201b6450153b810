"""Result of an evaluation: an answer for each row, with its scores."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from trm_train.config.optim import CellLoss
from trm_train.objective import slot_losses


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Answers:
    """Answers of B rows after a supervision step; with samples, every leaf has a leading axis K (number of samples)."""

    predictions: Any
    """int32 [B, S]: predicted tokens."""
    q_halt_logits: Any
    """float32 [B]: halting logits."""
    margins: Any
    """float32 [B]: confidence in the answer of a row; training halts above 0."""
    halt_steps: Any
    """int32 [B]: first supervision step with a margin above 0; 0 if none."""
    labelled_cells: Any
    """int32 [B]: cells with a label; 0 for padding rows and rows without a known answer."""
    wrong_cells: Any
    """int32 [B]: wrong labelled cells."""
    lm_loss: Any
    """float32 [B]: mean cross-entropy over the labelled cells."""
    residuals: Any = None
    """float32 [B]: root mean square change of the answer state in the last supervision step; None if not computed."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Course:
    """K samples of B rows after every supervision step, and their answers after D of the steps."""

    predictions: Any
    """int32 [K, D, B, S]: predicted tokens."""
    margins: Any
    """float32 [K, steps, B]: as in `Answers`."""
    residuals: Any
    """float32 [K, steps, B]: as in `Answers`."""
    wrong_cells: Any
    """int32 [K, steps, B]: wrong labelled cells."""


def answers(
    logits: Float[Array, "B S V"],
    q_logits: Float[Array, "B 2"],
    margins: Float[Array, " B"],
    halt_steps: Int[Array, " B"],
    labels: Int[Array, "B S"],
    ignore_label: int,
    cells: CellLoss,
    residuals: Float[Array, " B"] | None = None,
) -> Answers:
    """Return the answers of a network after a supervision step, scored against the labels."""
    losses = slot_losses(logits, q_logits[:, 0], labels, ignore_label, cells)
    return Answers(
        predictions=losses.predictions,
        q_halt_logits=q_logits[:, 0],
        margins=margins,
        halt_steps=jnp.asarray(halt_steps, jnp.int32),
        labelled_cells=losses.labelled,
        wrong_cells=losses.labelled - losses.correct,
        lm_loss=losses.lm,
        residuals=residuals,
    )
