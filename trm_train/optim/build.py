"""From the configuration to the two optimizers of a run."""

from __future__ import annotations

import functools
from collections.abc import Callable

import optax
from jaxtyping import Array

from trm_train.config.run import RunConfig
from trm_train.optim.adam_atan2 import adam_atan2
from trm_train.optim.schedule import rate_factor


def make_schedule(config: RunConfig) -> Callable[[Array], Array]:
    """Factor of both learning rates at an optimizer step, counted from 1."""
    return functools.partial(
        rate_factor,
        warmup_steps=config.optim.lr_warmup_steps,
        total_steps=config.total_steps,
        min_ratio=config.optim.lr_min_ratio,
    )


def make_optimizer(config: RunConfig) -> optax.GradientTransformation:
    """AdamATan2 for everything the network trains; the puzzle embedding has `sign_sgd`."""
    factor = make_schedule(config)
    return adam_atan2(
        lambda step: config.optim.lr * factor(step),
        beta1=config.optim.beta1,
        beta2=config.optim.beta2,
        weight_decay=config.optim.weight_decay,
    )
