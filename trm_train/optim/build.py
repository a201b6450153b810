"""From the configuration to the two optimizers of a run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from trm_train.config.optim import AdamWConfig, OptimConfig
from trm_train.config.run import RunConfig
from trm_train.errors import ConfigError
from trm_train.optim.adam_atan2 import adam_atan2
from trm_train.optim.schedule import rate_factor


def make_schedule(config: RunConfig) -> Callable[[Array], Array]:
    """Factor of both learning rates at an optimizer step, counted from 1."""
    return functools.partial(
        rate_factor,
        warmup_steps=config.optim.lr_warmup_steps,
        total_steps=config.total_steps,
        min_ratio=config.optim.lr_min_ratio,
        schedule=config.optim.lr_schedule,
    )


def make_optimizer(config: RunConfig) -> optax.GradientTransformation:
    """The optimizer of everything the network trains; the puzzle embedding has `sign_sgd`.

    Raises:
        ConfigError: There is no such optimizer.
    """
    factor, optim = make_schedule(config), config.optim

    def rate(step: Array) -> Array:
        return optim.lr * factor(step)

    match optim:
        case OptimConfig():
            return adam_atan2(rate, beta1=optim.beta1, beta2=optim.beta2, weight_decay=optim.weight_decay)
        case AdamWConfig():
            adamw = optax.adamw(
                lambda taken: rate(jnp.asarray(taken) + 1),  # optax counts the steps before this one
                b1=optim.beta1,
                b2=optim.beta2,
                eps=optim.epsilon,
                weight_decay=optim.weight_decay,
            )
            return _with_its_promotion(adamw)
        case _:
            raise ConfigError(f"optim: nothing is known of {type(optim).__name__}")


def _with_its_promotion(optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    """The same, also where mixing of types is an error: optax raises floats to the power of its int32 count."""

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        with jax.numpy_dtype_promotion("standard"):
            return optimizer.update(updates, state, params)

    return optax.GradientTransformation(optimizer.init, update)
