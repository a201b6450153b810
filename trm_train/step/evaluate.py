"""Evaluation steps as pure functions of weights and batch: every row, for a fixed number of supervision steps.

`make_eval_step` returns the answers after the last step, `make_trace_step` those after every cycle of every step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.sharding import Mesh
from jaxtyping import Array

from trm_train.config.run import InputSpec, RunConfig
from trm_train.mesh import look_up, whole
from trm_train.model.base import States, merge
from trm_train.objective import slot_losses
from trm_train.state import Weights, abstract_weights
from trm_train.step.think import Batch, make_think, metric_sums

EvalStep = Callable[[Weights, Batch], "EvalOutputs"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class EvalOutputs:
    """Output of an evaluation step, after the last supervision step unless stated otherwise."""

    predictions: Any
    """int32 [B, S]: predicted tokens."""
    q_halt_logits: Any
    """float32 [B]: halting logits."""
    q_halt_by_step: Any
    """float32 [steps, B]: confidence in the answer after every supervision step: the halting logit, minus the continue
    logit if the network compares them. Training would halt above 0."""
    metrics: Any
    """Sums and counts over the rows that are not padding."""
    logits: Any
    """float [B, S, V]; None if not requested."""
    wrong_by_step: Any = None
    """int32 [steps, B]: wrong labelled cells after every supervision step; None if not requested."""


def make_eval_step(
    config: RunConfig,
    spec: InputSpec,
    model: nnx.GraphDef,
    *,
    steps: int | None = None,
    return_logits: bool = False,
    by_step: bool = False,
    mesh: Mesh | None = None,
) -> EvalStep:
    """Make `eval_step(weights, batch) -> EvalOutputs`: every row, a fixed number of steps, no halting.

    Args:
        config: Configuration of the run.
        spec: Input sizes of the dataset.
        model: Definition from `init_state`.
        steps: Number of supervision steps; None for `halt_max_steps`.
        return_logits: Whether to return the logits of the last step.
        by_step: Whether to return the number of wrong cells after every supervision step.
        mesh: Mesh that rows and puzzle table are spread over; None for one device.
    """
    num_steps = config.model.halt_max_steps if steps is None else steps

    def eval_step(weights: Weights, batch: Batch) -> EvalOutputs:
        network = merge(model, whole(weights.params, mesh), weights.fixed, weights.puzzle_table)
        think = make_think(model, weights, mesh)
        inputs, labels = (batch[name].astype(jnp.int32) for name in ("inputs", "labels"))
        rows = look_up(weights.puzzle_table, batch["puzzle_identifiers"].astype(jnp.int32), mesh)
        rows_count = inputs.shape[0]

        def supervision_step(states: States, _: None) -> tuple[States, tuple[Array, Array, Array | None]]:
            states = think(states, inputs, rows)
            q_logits = network.q_logits(states)
            wrong = None
            if by_step:
                differs = jnp.argmax(network.logits(states), axis=-1) != labels
                wrong = jnp.sum(differs & (labels != spec.ignore_label), axis=-1, dtype=jnp.int32)
            return states, (q_logits[:, 0], network.halt_margin(q_logits), wrong)

        initial = network.initial_states(rows_count)
        states, (q_halt_by_step, margin_by_step, wrong_by_step) = lax.scan(
            supervision_step, initial, length=num_steps
        )
        logits, q_halt = network.logits(states), q_halt_by_step[-1]
        losses = slot_losses(logits, q_halt, labels, spec.ignore_label, config.loss.cells)
        metrics = metric_sums(
            losses,
            q_halt,
            jnp.full((rows_count,), num_steps, jnp.int32),
            jnp.ones((rows_count,), bool),
            batch.get("weight"),
        )
        return EvalOutputs(
            predictions=losses.predictions,
            q_halt_logits=q_halt,
            q_halt_by_step=margin_by_step,
            metrics=metrics,
            logits=logits if return_logits else None,
            wrong_by_step=wrong_by_step,
        )

    return eval_step


TraceStep = Callable[[Weights, Batch], "Trace"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Trace:
    """States of B rows after every cycle: T supervision steps of C cycles each."""

    predictions: Any
    """uint8 [T, C, B, S]: predicted tokens."""
    q_halt_logits: Any
    """float32 [T, C, B]: halting logits."""
    margins: Any
    """float32 [T, C, B]: confidence in the answer of a row; training halts above 0 at the last cycle of a step."""
    latents: Any
    """float16 [T, C, B, L, D] of each latent state by name; empty if not requested."""


def cycles_of(config: RunConfig) -> int:
    """Return the number of cycles in a supervision step that a trace can show; 1 for a network without cycles."""
    return getattr(config.model, "h_cycles", 1)


def make_trace_step(
    config: RunConfig,
    spec: InputSpec,
    model: nnx.GraphDef,
    *,
    steps: int,
    with_latents: bool = False,
    mesh: Mesh | None = None,
) -> TraceStep:
    """Make `trace_step(weights, batch) -> Trace`, without halting, as in the evaluation.

    For the answer, one supervision step of C cycles equals C supervision steps of one cycle.

    Args:
        config: Configuration of the run.
        spec: Input sizes of the dataset.
        model: Definition from `init_state`.
        steps: Number of supervision steps.
        with_latents: Whether to return the latent states too.
        mesh: Mesh that rows and puzzle table are spread over; None for one device.
    """
    cycles = cycles_of(config)
    if cycles > 1:
        last: Any = config.model.stages(config.total_steps)[-1][1]
        single = replace(last, h_cycles=1)
        model = abstract_weights(replace(config, model=single), spec)[0]

    def trace_step(weights: Weights, batch: Batch) -> Trace:
        network = merge(model, whole(weights.params, mesh), weights.fixed, weights.puzzle_table)
        think = make_think(model, weights, mesh)
        inputs = batch["inputs"].astype(jnp.int32)
        rows = look_up(weights.puzzle_table, batch["puzzle_identifiers"].astype(jnp.int32), mesh)

        def cycle(states: States, _: None) -> tuple[States, Trace]:
            states = think(states, inputs, rows)
            q_logits = network.q_logits(states)
            latents: dict[str, Array] = {}
            if with_latents:
                latents = {name: state.astype(jnp.float16) for name, state in states.items()}
            return states, Trace(
                predictions=jnp.argmax(network.logits(states), axis=-1).astype(jnp.uint8),
                q_halt_logits=q_logits[:, 0],
                margins=network.halt_margin(q_logits),
                latents=latents,
            )

        initial = network.initial_states(inputs.shape[0])
        _, trace = lax.scan(cycle, initial, length=steps * cycles)
        return jax.tree.map(lambda leaf: leaf.reshape(steps, cycles, *leaf.shape[1:]), trace)

    return trace_step
