"""The learning-rate schedule, as a factor that both parameter groups share."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jaxtyping import Array, Float, Int32


def rate_factor(
    step: Int32[Array, ""], *, warmup_steps: int, total_steps: int, min_ratio: float
) -> Float[Array, ""]:
    """Factor of the learning rate at an optimizer step.

    Linear warm-up from 0 (step 1 uses 1 / warmup_steps), then cosine to `min_ratio` at `total_steps`, where
    it stays.

    Args:
        step: the step being taken, from 1.
        warmup_steps: 0 for none.
        total_steps: of the run.
        min_ratio: 1.0 keeps the rate constant after the warm-up.
    """
    t = step.astype(jnp.float32)
    warmup = jnp.minimum(t / max(warmup_steps, 1), 1.0)
    progress = jnp.clip((t - warmup_steps) / max(total_steps - warmup_steps, 1), 0.0, 1.0)
    cosine = min_ratio + (1.0 - min_ratio) * 0.5 * (1.0 + jnp.cos(math.pi * progress))
    return jnp.where(step < warmup_steps, warmup, cosine)
