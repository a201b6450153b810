"""Loss scaling for float16, whose smallest numbers are larger than many gradients.

The loss is multiplied by a scale before differentiation, and the gradients are divided by it. A gradient that is not
finite means that the scale was too large: the step is skipped and the scale is halved. After `GROWTH_STEPS` steps with
finite gradients the scale is doubled.
Source: Micikevicius et al., Mixed Precision Training (arXiv 1710.03740).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

FIRST_SCALE = 2.0**15
LARGEST_SCALE = 2.0**24
GROWTH_STEPS = 2_000

Tree = TypeVar("Tree")


class Scaled(NamedTuple):
    """State of an optimizer whose gradients come from a scaled loss."""

    scale: Any
    """Factor of the next loss, float32."""
    good_steps: Any
    """Steps without overflow since the scale changed, int32."""
    skipped: Any
    """Number of skipped steps so far, int32."""
    inner: Any
    """State of the optimizer itself."""


def scale_of(opt_state: Any) -> Float[Array, ""] | None:
    """Return the factor of the loss; None without scaling."""
    return opt_state.scale if isinstance(opt_state, Scaled) else None


def with_loss_scale(optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    """Add a loss scale to the state of an optimizer; `after_step` updates the scale."""

    def init(params: Any) -> Scaled:
        return Scaled(
            scale=jnp.float32(FIRST_SCALE),
            good_steps=jnp.zeros((), jnp.int32),
            skipped=jnp.zeros((), jnp.int32),
            inner=optimizer.init(params),
        )

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Scaled]:
        changes, inner = optimizer.update(updates, state.inner, params)
        return changes, state._replace(inner=inner)

    return optax.GradientTransformation(init, update)


def all_finite(tree: Any) -> Bool[Array, ""]:
    """Return whether every element is finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]))


def chosen(take: Bool[Array, ""], new: Tree, old: Tree) -> Tree:
    """Return `new` if `take` is true, else `old`."""
    return jax.tree.map(lambda a, b: jnp.where(take, a, b), new, old)


def after_step(opt_state: Scaled, before: Scaled, finite: Bool[Array, ""]) -> Scaled:
    """Return the optimizer's state after a step, with the scale updated; a step with non-finite gradients is undone.

    Args:
        opt_state: State after the optimizer's update.
        before: State before the step.
        finite: Whether the gradients were finite.
    """
    good = jnp.where(finite, before.good_steps + 1, 0)
    grows = good >= GROWTH_STEPS
    factor = jnp.where(finite, jnp.where(grows, 2.0, 1.0), 0.5)
    return Scaled(
        scale=jnp.clip(before.scale * factor, 1.0, LARGEST_SCALE),
        good_steps=jnp.where(grows, 0, good),
        skipped=before.skipped + jnp.where(finite, 0, 1),
        inner=jax.tree.map(
            # Counts always advance, so that rates follow the steps of the run; moments are kept on a skipped step.
            lambda new, old: new if jnp.issubdtype(new.dtype, jnp.integer) else jnp.where(finite, new, old),
            opt_state.inner,
            before.inner,
        ),
    )
