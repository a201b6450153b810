"""One supervision step of the recursion, as a pure function of a level.

`h_cycles` times: `l_cycles` updates of z_L, then one of z_H. One level serves both updates. Only the last
cycle carries gradient: the cycles before it run on a copy of the level and of the input without gradient,
so that differentiating a step costs nothing for them.
Source: the TRM paper and its published code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from flax import nnx
from jax import lax
from jaxtyping import Array, Float

State = Float[Array, "..."]
LevelFunction = Callable[[State, State], State]


def cycle(level: LevelFunction, z_h: State, z_l: State, e: State, l_cycles: int) -> tuple[State, State]:
    """`l_cycles` updates of z_L, each from z_H and the input; then one update of z_H from z_L."""
    for _ in range(l_cycles):
        z_l = level(z_l, z_h + e)
    z_h = level(z_h, z_l)
    return z_h, z_l


def without_gradient(module: nnx.Module) -> nnx.Module:
    """The same module with its parameters cut from differentiation."""
    definition, parameters = nnx.split(module)
    return nnx.merge(definition, jax.tree.map(lax.stop_gradient, parameters))


def recurse(
    level: nnx.Module,
    z_h: State,
    z_l: State,
    e: State,
    *,
    h_cycles: int,
    l_cycles: int,
    recomputes: bool = False,
) -> tuple[State, State]:
    """One supervision step on packed states.

    Args:
        level: f(z, injection).
        z_h: Answer state.
        z_l: Latent state.
        e: Embedded input.
        h_cycles: Updates of z_H; gradient flows through the last one only.
        l_cycles: Updates of z_L for each update of z_H.
        recomputes: Keep only the states between levels for the backward pass, which computes the rest again.

    Returns:
        The new z_H and z_L.
    """
    if h_cycles > 1:
        frozen, frozen_e = without_gradient(level), lax.stop_gradient(e)

        def body(z: tuple[State, State], _: None) -> tuple[tuple[State, State], None]:
            return cycle(frozen, *z, frozen_e, l_cycles), None

        start = (lax.stop_gradient(z_h), lax.stop_gradient(z_l))
        (z_h, z_l), _ = lax.scan(body, start, length=h_cycles - 1)
        z_h, z_l = lax.stop_gradient(z_h), lax.stop_gradient(z_l)
    if recomputes:
        return _recomputing_cycle(level, z_h, z_l, e, l_cycles)
    return cycle(level, z_h, z_l, e, l_cycles)


def _recomputing_cycle(
    level: nnx.Module, z_h: State, z_l: State, e: State, l_cycles: int
) -> tuple[State, State]:
    """`cycle`, of which differentiation keeps only the states between levels.

    A loop and not a sequence: of a sequence compilers may find (measured: XLA on CPU) that what is computed again was
    computed before, and keep it all the same.
    """
    definition, parameters = nnx.split(level)

    @jax.checkpoint
    def apply(parameters: Any, z: State, injection: State) -> State:
        return nnx.merge(definition, parameters)(z, injection)

    def body(z_l: State, _: None) -> tuple[State, None]:
        return apply(parameters, z_l, z_h + e), None

    z_l, _ = lax.scan(body, z_l, length=l_cycles)
    return apply(parameters, z_h, z_l), z_l
