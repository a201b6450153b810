"""Optimizers of a run, their schedules, loss scaling for float16, and the moving average of the parameters.

Float16's smallest numbers are larger than many gradients. So the loss is multiplied by a scale before differentiation,
and the gradients are divided by it. A gradient that is not finite means that the scale was too large: the step is
skipped and the scale is halved. After `GROWTH_STEPS` steps with finite gradients the scale is doubled.
Source: the TRM paper and its published code; Micikevicius et al., Mixed Precision Training (arXiv 1710.03740).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
import optax.contrib
from jaxtyping import Array, Bool, Float, Int, Int32

from trm_train.config.optim import AdamWConfig, LionConfig, MuonConfig, OptimConfig, OptimizerConfig
from trm_train.config.run import RunConfig
from trm_train.config.values import (
    EndDecay,
    Function,
    Linear,
    LrSchedule,
    Piecewise,
    Scheduled,
    lr_function,
)

MUON_RMS = 0.2
"""Root mean square of Muon's updates, which matches the usual size of AdamW's. Source: arXiv 2502.16982."""


def make_schedule(config: RunConfig) -> Callable[[Array], Array]:
    """Return a function that gives the factor of both learning rates at an optimizer step, counted from 1."""
    return functools.partial(
        rate_factor,
        warmup_steps=config.optim.lr_warmup_steps,
        total_steps=config.total_steps,
        min_ratio=config.optim.lr_min_ratio,
        schedule=config.optim.lr_schedule,
    )


def make_optimizer(config: RunConfig) -> optax.GradientTransformation:
    """Return the optimizer of all network parameters; the puzzle embedding uses `sign_sgd`.

    With float16 it expects gradients of a scaled loss, and its state is a `Scaled`.
    """
    factor, optim = make_schedule(config), config.optim

    def rate(step: Array) -> Array:
        return optim.lr * factor(step)

    optimizer = _optimizer(optim, rate)
    if optim.clip_norm:
        optimizer = optax.chain(_with_its_promotion(optax.clip_by_global_norm(optim.clip_norm)), optimizer)
    return with_loss_scale(optimizer) if config.model.forward_dtype == "float16" else optimizer


def _optimizer(optim: OptimizerConfig, rate: Callable[[Array], Array]) -> optax.GradientTransformation:
    def rate_after(taken: Any) -> Array:
        return rate(jnp.asarray(taken) + 1)  # optax counts the steps already taken

    match optim:
        case OptimConfig():
            return adam_atan2(rate, beta1=optim.beta1, beta2=optim.beta2, weight_decay=optim.weight_decay)
        case AdamWConfig():
            made = optax.adamw(
                rate_after,
                b1=optim.beta1,
                b2=optim.beta2,
                eps=optim.epsilon,
                weight_decay=optim.weight_decay,
            )
        case LionConfig():
            made = optax.lion(rate_after, b1=optim.beta1, b2=optim.beta2, weight_decay=optim.weight_decay)
        case MuonConfig():
            made = optax.contrib.muon(
                rate_after,
                ns_steps=optim.ns_steps,
                beta=optim.momentum,
                weight_decay=optim.weight_decay,
                adam_b1=optim.beta1,
                adam_b2=optim.beta2,
                adam_weight_decay=optim.weight_decay,
                consistent_rms=MUON_RMS,
                muon_weight_dimension_numbers=_hidden_matrices if optim.matrices == "hidden" else None,
            )
        case _:
            made = optim.make(rate_after)
    return _with_its_promotion(made)


def _hidden_matrices(params: Any) -> Any:
    """Return Muon's axes for each hidden matrix, and None for other parameters: embeddings, heads, vectors.

    Embeddings and heads are known by the name of a module: `embed...`, `head` or `..._head`.
    Source: Keller Jordan's Muon, which leaves them to AdamW.
    """

    def axes(path: Any, leaf: Array) -> optax.contrib.MuonDimensionNumbers | None:
        modules = jax.tree_util.keystr(path, simple=True, separator="/").split("/")
        outer = any(name.startswith("embed") or name.rpartition("_")[2] == "head" for name in modules)
        return None if outer or leaf.ndim != 2 else optax.contrib.MuonDimensionNumbers()

    return jax.tree.map_with_path(axes, params)


def _with_its_promotion(optimizer: optax.GradientTransformation) -> optax.GradientTransformation:
    """Allow type promotion inside an optax optimizer, which raises floats to the power of its int32 count."""

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        with jax.numpy_dtype_promotion("standard"):
            return optimizer.update(updates, state, params)

    return optax.GradientTransformation(optimizer.init, update)


class AdamATan2State(NamedTuple):
    """Moments of every parameter."""

    count: Any
    """Number of updates so far, int32."""
    m: Any
    v: Any


def adam_atan2(
    learning_rate: Callable[[Array], Array], *, beta1: float, beta2: float, weight_decay: float
) -> optax.GradientTransformation:
    """Return the AdamATan2 transformation.

    Args:
        learning_rate: Learning rate at an optimizer step, counted from 1.
        beta1: Decay of the first moment.
        beta2: Decay of the second moment.
        weight_decay: Decoupled weight decay; applies to every parameter.
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


def update_ema(average: Any, params: Any, rate: float) -> Any:
    """rate * average + (1 - rate) * params, leaf by leaf, after every optimizer step.

    The average starts as a copy of the initial parameters.
    """
    return jax.tree.map(lambda e, p: rate * e + (1.0 - rate) * p, average, params)


def sign_sgd(
    table: Float[Array, "R N"],
    slot_grads: Float[Array, "B N"],
    identifiers: Int32[Array, " B"],
    learning_rate: Float[Array, ""],
    weight_decay: float,
) -> Float[Array, "R N"]:
    """Return the table after one step: row (1 - lr wd) - lr sign(sum of its slots' gradients).

    The gradient is given per slot; slots with the same identifier are summed first. Work and memory grow with the
    batch, not with the table. A row whose sum is exactly zero still decays; rows without a slot do not change.

    Args:
        table: Puzzle-embedding table.
        slot_grads: Gradient of the loss with respect to the row that each slot looked up.
        identifiers: Identifiers of the slots' current examples.
        learning_rate: Learning rate at this step.
        weight_decay: Decay of the rows in this batch, multiplied by the learning rate.
    """
    slots, past_the_end = identifiers.shape[0], table.shape[0]
    rows, segment = jnp.unique(identifiers, return_inverse=True, size=slots, fill_value=past_the_end)
    summed = jax.ops.segment_sum(slot_grads, segment, num_segments=slots)
    held = table.at[rows].get(mode="fill", fill_value=0.0, indices_are_sorted=True)
    updated = held * (1.0 - learning_rate * weight_decay) - learning_rate * jnp.sign(summed)
    return table.at[rows].set(updated, mode="drop", indices_are_sorted=True)


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
