"""One training step and one evaluation of a batch, as pure functions of state and batch.

A training step is one supervision step and one optimizer step:

    refill halted slots -> forward -> loss -> gradients -> AdamATan2 and sign-SGD -> EMA -> halting

A batch is a dict of `inputs` and `labels` (any integer dtype, [B, S]) and `puzzle_identifiers` (int32 [B]);
a batch to evaluate may have `weight` (bool [B]), False for rows that only pad it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import lax
from jaxtyping import Array, Float, Int

from trm_train.config.run import InputSpec, RunConfig
from trm_train.metrics.sums import Metrics, metric_sums
from trm_train.model.act import Carry, exploration_min_steps, halt, refill
from trm_train.model.trm import Outputs, merge
from trm_train.objective import Losses, slot_losses
from trm_train.optim.build import make_optimizer, make_schedule
from trm_train.optim.ema import update_ema
from trm_train.optim.sign_sgd import sign_sgd
from trm_train.state import TrainState, Weights

Batch = Mapping[str, Array]
TrainStep = Callable[[TrainState, Batch], tuple[TrainState, Metrics]]
EvalStep = Callable[[Weights, Batch], "EvalOutputs"]


class Detail(NamedTuple):
    """What a training step computes on its way, for whoever checks it."""

    logits: Float[Array, "B S V"]
    q_halt_logits: Float[Array, " B"]
    predictions: Int[Array, "B S"]
    loss: Float[Array, ""]
    """Before the division by the global batch."""
    grads: Any
    """Of the parameters, of loss / global batch."""
    row_grads: Any
    """Of the puzzle-embedding row each slot looked up, [B, N]; None without puzzle positions."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class EvalOutputs:
    """What an evaluation of a batch returns; all of the last supervision step unless said otherwise."""

    predictions: Any
    """int32 [B, S]."""
    q_halt_logits: Any
    """float32 [B]."""
    q_halt_by_step: Any
    """float32 [steps, B]: the halting logit after every supervision step."""
    metrics: Any
    """Sums and counts over the rows that are no padding."""
    logits: Any
    """float [B, S, V], or None where not asked for."""


def look_up(puzzle_table: Array | None, identifiers: Int[Array, " B"]) -> Array | None:
    """The puzzle-embedding row of every slot, [B, N]."""
    return None if puzzle_table is None else puzzle_table[identifiers]


def make_train_step(
    config: RunConfig, spec: InputSpec, model: nnx.GraphDef, *, with_detail: bool = False
) -> TrainStep:
    """Makes `train_step(state, batch) -> (state, metrics)`: pure, to be jitted with the state donated.

    Args:
        config: of the run.
        spec: of the dataset.
        model: definition from `init_state`.
        with_detail: the step returns (state, metrics, Detail); everything else is the same.
    """
    optimizer, schedule = make_optimizer(config), make_schedule(config)

    def train_step(state: TrainState, batch: Batch) -> Any:
        carry = refill(state.carry, batch, state.fixed["h_init"], state.fixed["l_init"])
        rows = look_up(state.puzzle_table, carry.current["puzzle_identifiers"])
        (outputs, losses), (grads, row_grads) = forward_backward(state, carry, rows)
        new_carry = advance(state, carry, outputs)
        metrics = metric_sums(losses, outputs.q_logits[:, 0], new_carry.steps, new_carry.halted)
        new_state = update(state, new_carry, grads, row_grads)
        if not with_detail:
            return new_state, metrics
        q_halt = outputs.q_logits[:, 0]
        detail = Detail(outputs.logits, q_halt, losses.predictions, losses.total(), grads, row_grads)
        return new_state, metrics, detail

    def forward_backward(state: TrainState, carry: Carry, rows: Array | None) -> Any:
        """Outputs and losses, and the gradient of loss / global batch for the parameters and slots' rows."""
        global_batch = carry.steps.shape[0]

        def objective(params: Any, rows: Array | None) -> Any:
            network = merge(model, params, state.fixed, state.puzzle_table)
            outputs = network(carry.z_h, carry.z_l, carry.current["inputs"], rows)
            losses = slot_losses(
                outputs.logits, outputs.q_logits[:, 0], carry.current["labels"], spec.ignore_label
            )
            return losses.total() / global_batch, (outputs, losses)

        (_, aux), grads = jax.value_and_grad(objective, argnums=(0, 1), has_aux=True)(state.params, rows)
        return aux, grads

    def advance(state: TrainState, carry: Carry, outputs: Outputs) -> Carry:
        """The carry after this step: new latents, one step more, and which slots are done."""
        model_config = config.model
        steps = carry.steps + 1
        min_steps = exploration_min_steps(
            state.key,
            state.step,
            steps.shape[0],
            model_config.halt_exploration_prob,
            model_config.halt_max_steps,
        )
        halted = halt(steps, outputs.q_logits[:, 0], min_steps, model_config.halt_max_steps)
        return Carry(
            z_h=lax.stop_gradient(outputs.z_h),
            z_l=lax.stop_gradient(outputs.z_l),
            steps=steps,
            halted=halted,
            current=carry.current,
        )

    def update(state: TrainState, carry: Carry, grads: Any, row_grads: Array | None) -> TrainState:
        """Both optimizers, then the average."""
        step = state.step + 1
        params, opt_state, ema, table = state.params, state.opt_state, state.ema, state.puzzle_table
        if not config.optim.freeze_weights:
            changes, opt_state = optimizer.update(grads, opt_state, params)
            params = optax.apply_updates(params, changes)
            ema = update_ema(ema, params, config.optim.ema_rate)
        if table is not None and row_grads is not None:
            rate = config.optim.puzzle_emb_lr * schedule(step)
            identifiers = carry.current["puzzle_identifiers"]
            table = sign_sgd(table, row_grads, identifiers, rate, config.optim.puzzle_emb_weight_decay)
        return dataclasses.replace(
            state,
            params=params,
            opt_state=opt_state,
            ema=ema,
            puzzle_table=table,
            carry=carry,
            step=step,
        )

    return train_step


def make_eval_step(
    config: RunConfig,
    spec: InputSpec,
    model: nnx.GraphDef,
    *,
    steps: int | None = None,
    return_logits: bool = False,
) -> EvalStep:
    """Makes `eval_step(weights, batch) -> EvalOutputs`: every row, a fixed number of steps, no halting.

    Args:
        config: of the run.
        spec: of the dataset.
        model: definition from `init_state`.
        steps: supervision steps; None for `halt_max_steps`.
        return_logits: whether the outputs hold the logits of the last step.
    """
    num_steps = config.model.halt_max_steps if steps is None else steps

    def eval_step(weights: Weights, batch: Batch) -> EvalOutputs:
        network = merge(model, weights.params, weights.fixed, weights.puzzle_table)
        inputs, labels = (batch[name].astype(jnp.int32) for name in ("inputs", "labels"))
        rows = look_up(weights.puzzle_table, batch["puzzle_identifiers"].astype(jnp.int32))
        rows_count = inputs.shape[0]
        z = network.initial_states(rows_count)

        def supervision_step(z: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
            z_h, z_l = network.think(*z, inputs, rows)
            return (z_h, z_l), network.q_head(z_h[:, 0])[:, 0]

        (z_h, _), q_halt_by_step = lax.scan(supervision_step, z, length=num_steps)
        logits, q_halt = network.logits(z_h), q_halt_by_step[-1]
        losses: Losses = slot_losses(logits, q_halt, labels, spec.ignore_label)
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
            q_halt_by_step=q_halt_by_step,
            metrics=metrics,
            logits=logits if return_logits else None,
        )

    return eval_step
