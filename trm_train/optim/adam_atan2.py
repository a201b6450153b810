"""AdamATan2 as an optax transformation: Adam whose quotient is an arctangent, so it needs no epsilon.

With t the step from 1:

    m = b1 m + (1 - b1) g          v = b2 v + (1 - b2) g^2
    p = p (1 - lr wd) - lr / (1 - b1^t) * atan2(m, sqrt(v) / sqrt(1 - b2^t))

Nothing is clipped.
Source: the TRM paper and its published code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array


class AdamATan2State(NamedTuple):
    """Moments of every parameter."""

    count: Any
    """Updates made so far, int32."""
    m: Any
    v: Any


def adam_atan2(
    learning_rate: Callable[[Array], Array], *, beta1: float, beta2: float, weight_decay: float
) -> optax.GradientTransformation:
    """Makes the transformation.

    Args:
        learning_rate: Rate at an optimizer step, counted from 1.
        beta1: Decay of the first moment.
        beta2: Decay of the second moment.
        weight_decay: Decoupled; it acts on every parameter.
    """

    def init(params: Any) -> AdamATan2State:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return AdamATan2State(jnp.zeros((), jnp.int32), zeros, jax.tree.map(jnp.copy, zeros))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, AdamATan2State]:
        if params is None:
            raise ValueError("adam_atan2 decays weights: pass the parameters to update()")
        count = state.count + 1
        t = count.astype(jnp.float32)
        rate = learning_rate(count)
        m = jax.tree.map(lambda g, m: beta1 * m + (1.0 - beta1) * g, updates, state.m)
        v = jax.tree.map(lambda g, v: beta2 * v + (1.0 - beta2) * jnp.square(g), updates, state.v)
        step_size = rate / (1.0 - beta1**t)
        v_scale = 1.0 / jnp.sqrt(1.0 - beta2**t)

        def change(p: Array, m: Array, v: Array) -> Array:
            return -(rate * weight_decay) * p - step_size * jnp.arctan2(m, jnp.sqrt(v) * v_scale)

        return jax.tree.map(change, params, m, v), AdamATan2State(count, m, v)

    return optax.GradientTransformation(init, update)
