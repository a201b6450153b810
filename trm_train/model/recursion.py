"""One supervision step of the recursion, as a pure function of levels and packed states.

`h_cycles` times: `l_cycles` updates of z_L, then one of z_H. One level, or one for each state, computes the updates.
Only the last cycle has gradient, or only the last update of each state (the one-step gradient). Earlier updates use a
copy of the levels and of the input without gradient, so differentiating a step costs nothing for them.
Source: the TRM paper and its published code; the HRM paper (arXiv 2506.21734) for the one-step gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float

State = Float[Array, "..."]
Latents = tuple[State, ...]
"""The states z_L: one, or `l_cycles` of them (multi-scale)."""
LevelFunction = Callable[[State, State], State]


class Levels(NamedTuple):
    """Functions f(z, injection) that update the states; with one network both are the same."""

    low: Any
    """Function that updates z_L."""
    high: Any
    """Function that updates z_H."""


def total(z_l: Latents) -> State:
    """Return the input that an update takes from the latents: their sum."""
    return functools.reduce(jnp.add, z_l)


def low_updates(level: LevelFunction, z_h: State, z_l: Latents, e: State, count: int) -> Latents:
    """Apply `count` updates of z_L from z_H and the input; with several states, each update replaces the oldest."""
    for _ in range(count):
        z_l = (*z_l[1:], level(total(z_l), z_h + e))
    return z_l


def cycle(levels: Levels, z_h: State, z_l: Latents, e: State, l_cycles: int) -> tuple[State, Latents]:
    """Apply `l_cycles` updates of z_L, each from z_H and the input, then one update of z_H from z_L."""
    z_l = low_updates(levels.low, z_h, z_l, e, l_cycles)
    return levels.high(z_h, total(z_l)), z_l


def without_gradient(module: nnx.Module) -> nnx.Module:
    """Return a copy of a module whose parameters have no gradient."""
    definition, parameters = nnx.split(module)
    return nnx.merge(definition, jax.tree.map(lax.stop_gradient, parameters))


def recurse(
    levels: Levels,
    z_h: State,
    z_l: Latents,
    e: State,
    *,
    h_cycles: int,
    l_cycles: int,
    one_step: bool = False,
    recomputes: bool = False,
) -> tuple[State, Latents, State]:
    """Take one supervision step on packed states.

    Args:
        levels: Functions that update the states.
        z_h: Answer state.
        z_l: Latent states.
        e: Embedded input.
        h_cycles: Number of updates of z_H; gradient flows only through the last one.
        l_cycles: Number of updates of z_L for each update of z_H.
        one_step: Gradient flows only through the last update of z_L and of z_H, instead of the whole last cycle.
        recomputes: Keep only the states between levels for the backward pass, and recompute the rest.

    Returns:
        The new z_H and z_L, and the z_H before the last cycle, without gradient.
    """
    low = without_gradient(levels.low)
    frozen = Levels(low, low if levels.high is levels.low else without_gradient(levels.high))
    frozen_e = lax.stop_gradient(e)
    if h_cycles > 1:

        def body(z: tuple[State, Latents], _: None) -> tuple[tuple[State, Latents], None]:
            return cycle(frozen, *z, frozen_e, l_cycles), None

        (z_h, z_l), _ = lax.scan(body, lax.stop_gradient((z_h, z_l)), length=h_cycles - 1)
        z_h, z_l = lax.stop_gradient((z_h, z_l))
    before = lax.stop_gradient(z_h)
    if one_step and l_cycles > 1:
        z_l = lax.stop_gradient(low_updates(frozen.low, before, z_l, frozen_e, l_cycles - 1))
        l_cycles = 1
    last = _recomputing_cycle if recomputes else cycle
    return *last(levels, z_h, z_l, e, l_cycles), before


def mean_squared_change(before: State, after: Float[Array, "B L D"]) -> Float[Array, " B"]:
    """Return the mean over positions and width for each slot, in float32."""
    difference = after.astype(jnp.float32) - before.astype(jnp.float32)
    return jnp.mean(jnp.square(difference), axis=(1, 2))


def _recomputing_cycle(
    levels: Levels, z_h: State, z_l: Latents, e: State, l_cycles: int
) -> tuple[State, Latents]:
    """As `cycle`, but the backward pass keeps only the states between levels.

    This is a loop, because in a plain sequence a compiler (measured: XLA on CPU) may detect that a recomputed value
    was computed before, and keep it after all.
    """
    low, high = map(recomputing, levels)

    def body(z_l: Latents, _: None) -> tuple[Latents, None]:
        return low_updates(low, z_h, z_l, e, 1), None

    z_l, _ = lax.scan(body, z_l, length=l_cycles)
    return high(z_h, total(z_l)), z_l


def recomputing(level: nnx.Module) -> LevelFunction:
    """Return a level whose backward pass keeps only its arguments and recomputes the rest."""
    definition, parameters = nnx.split(level)
    apply = jax.checkpoint(lambda parameters, z, injection: nnx.merge(definition, parameters)(z, injection))
    return functools.partial(apply, parameters)
