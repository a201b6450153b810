"""Schedules over training: the learning-rate factor of both parameter groups, and other values."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Int32

from trm_train.config.scheduled import (
    EndDecay,
    Function,
    Linear,
    LrSchedule,
    Piecewise,
    Scheduled,
    lr_function,
)


def rate_factor(
    step: Int32[Array, ""],
    *,
    warmup_steps: int,
    total_steps: int,
    min_ratio: float,
    schedule: LrSchedule = "cosine",
) -> Float[Array, ""]:
    """Return the factor of the learning rate at an optimizer step.

    Linear warm-up from 0 (step 1 uses 1 / warmup_steps), then the schedule, whose value at `total_steps` stays
    afterwards.

    Args:
        step: Number of the step being taken, from 1.
        warmup_steps: Length of the warm-up; 0 for none.
        total_steps: Total steps of the run.
        min_ratio: Final factor of a decay; 1.0 keeps the rate constant after the warm-up.
        schedule: A decay (half a cosine, linear, or linear over the last share of the steps), points, or a function.
    """
    t = step.astype(jnp.float32)
    warmup = jnp.minimum(t / max(warmup_steps, 1), 1.0)
    progress = jnp.clip((t - warmup_steps) / max(total_steps - warmup_steps, 1), 0.0, 1.0)
    if isinstance(schedule, Piecewise):
        shares, factors = (jnp.asarray(values, jnp.float32) for values in zip(*schedule.points, strict=True))
        decayed = jnp.interp(progress, shares, factors)
    elif isinstance(schedule, EndDecay):
        decayed = 1.0 - (1.0 - min_ratio) * jnp.clip((progress - 1.0) / schedule.share + 1.0, 0.0, 1.0)
    elif isinstance(schedule, Function):
        decayed = jnp.asarray(lr_function(schedule)(progress), jnp.float32)
    elif schedule == "cosine":
        decayed = min_ratio + (1.0 - min_ratio) * 0.5 * (1.0 + jnp.cos(math.pi * progress))
    else:
        decayed = min_ratio + (1.0 - min_ratio) * (1.0 - progress)
    return jnp.where(step < warmup_steps, warmup, decayed)


def value_at(value: Scheduled, step: Int[Array, ""], total_steps: int) -> float | Float[Array, ""]:
    """Return a scheduled value at an optimizer step, counted from 1; a plain number is constant."""
    if not isinstance(value, Linear):
        return float(value)
    progress = (step.astype(jnp.float32) - 1.0) / max(total_steps - 1, 1)
    return value.start + (value.end - value.start) * jnp.clip(progress, 0.0, 1.0)
