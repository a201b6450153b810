"""One training step, as a pure function of state and batch.

A training step is one supervision step and one optimizer step:

    refill halted slots -> forward -> loss -> gradients -> optimizer and sign-SGD -> EMA -> halting

It uses only the interface of the network in `model/base.py`, and any optax transformation as the optimizer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from trm_train.config.run import InputSpec, RunConfig
from trm_train.config.values import Linear
from trm_train.errors import ConfigError
from trm_train.mesh import (
    BATCH,
    add_up,
    added_specs,
    batch_fingerprint,
    look_up,
    split_parameters,
    update_rows,
    whole,
)
from trm_train.model.act import Carry, exploration_min_steps, halt, refill
from trm_train.model.base import Network, Outputs, merge
from trm_train.objective import Losses, binary_cross_entropy, continue_target, slot_losses
from trm_train.optim import (
    Scaled,
    after_step,
    all_finite,
    chosen,
    make_optimizer,
    make_schedule,
    scale_of,
    sign_sgd,
    update_ema,
    value_at,
)
from trm_train.state import TrainState
from trm_train.step.think import Batch, Metrics, metric_sums, sums_by_task

BY_TASK = "by_task"
"""For mixtures: name of the metric with the sums of each dataset [D], by name."""
TrainStep = Callable[[TrainState, Batch], tuple[TrainState, Any]]


class Detail(NamedTuple):
    """Intermediate values of a training step, for tests."""

    logits: Float[Array, "B S V"]
    q_logits: Float[Array, "B 2"]
    losses: Losses
    loss: Float[Array, ""]
    """Loss before the division by the global batch size."""
    grads: Any
    """Gradients of loss / global batch size with respect to the parameters."""
    row_grads: Any
    """Gradients of the puzzle-embedding row of each slot, [B, N]; None without puzzle positions."""


class _Shared(NamedTuple):
    """Values shared by all slots of a step."""

    params: Any
    fixed: Any
    scale: Array | None
    """Factor of the loss; None without loss scaling."""
    max_steps: int | Int[Array, ""]
    """Maximum number of supervision steps of a slot."""
    slots: int
    """Global batch size."""


def make_train_step(
    config: RunConfig,
    spec: InputSpec,
    model: nnx.GraphDef,
    *,
    mesh: Mesh | None = None,
    with_detail: bool = False,
) -> TrainStep:
    """Make `train_step(state, batch) -> (state, metrics)`: pure, to be jitted with the state donated.

    Args:
        config: Configuration of the run.
        spec: Input sizes of the dataset.
        model: Definition from `init_state`.
        mesh: Mesh that the slots and the puzzle table are spread over; None for one device.
        with_detail: Return (state, metrics, Detail); everything else is the same.
    """
    made = make_optimizer(config), make_schedule(config)
    return _Step(config, spec, model, *made, mesh, with_detail).train_step


@dataclasses.dataclass(frozen=True)
class _Step:
    """A training step and its parts, in order of execution."""

    config: RunConfig
    spec: InputSpec
    model: nnx.GraphDef
    optimizer: optax.GradientTransformation
    schedule: Callable[[Array], Array]
    mesh: Mesh | None
    with_detail: bool

    def train_step(self, state: TrainState, batch: Batch) -> Any:
        """Take one supervision step and one optimizer step."""
        params = whole(state.params, self.mesh)
        network = merge(self.model, params, state.fixed, state.puzzle_table)
        carry = refill(state.carry, batch, network.initial_states(state.carry.steps.shape[0]))
        rows = look_up(state.puzzle_table, carry.current["puzzle_identifiers"], self.mesh)
        (outputs, losses), (grads, row_grads) = self.gradients(state, params, carry, rows)
        new_carry = self.advance(state, network, carry, outputs)
        q_halt = outputs.q_logits[:, 0]
        metrics: dict[str, Any] = metric_sums(losses, q_halt, new_carry.steps, new_carry.halted)
        if self.config.data.is_mixture:
            counted, number = (new_carry.steps, new_carry.halted), len(self.config.data.names)
            metrics[BY_TASK] = sums_by_task(losses, q_halt, *counted, carry.current["tasks"], number)
        new_state, norms = self.update(state, new_carry, grads, row_grads)
        halted = jnp.sum(new_carry.halted, dtype=jnp.int32)
        metrics |= norms | {"halted_slots": halted, "rows_digest": batch_fingerprint(batch)}
        if isinstance(new_state.opt_state, Scaled):
            metrics |= {"loss_scale": new_state.opt_state.scale, "skipped": new_state.opt_state.skipped}
        if not self.with_detail:
            return new_state, metrics
        detail = Detail(outputs.logits, outputs.q_logits, losses, losses.total(), grads, row_grads)
        return new_state, metrics, detail

    def gradients(self, state: TrainState, params: Any, carry: Carry, rows: Array | None) -> Any:
        """Return `device_gradients` of all slots; parameter gradients are summed once over the devices."""
        max_steps = self.max_steps(state.step)
        shared = _Shared(params, state.fixed, scale_of(state.opt_state), max_steps, carry.steps.shape[0])
        if self.mesh is None or self.mesh.size == 1:
            return self.device_gradients(shared, carry, rows)
        mesh, split = self.mesh, self.config.execution.shard_parameters

        def mine(
            params: Any, fixed: Any, scale: Array | None, max_steps: Any, carry: Carry, rows: Array | None
        ) -> Any:
            part = _Shared(params, fixed, scale, max_steps, shared.slots)
            aux, (grads, row_grads) = self.device_gradients(part, carry, rows)
            return aux, (add_up(grads, mesh, split=split), row_grads)

        added = added_specs(params, mesh, split=split)
        spread = jax.shard_map(
            mine,
            mesh=mesh,
            in_specs=(P(), P(), P(), P(), BATCH, BATCH),
            out_specs=(BATCH, (added, BATCH)),
            check_vma=False,  # what is split along `data` only is the same along `model`
        )
        aux, (grads, row_grads) = spread(*shared[:4], carry, rows)
        return aux, (split_parameters(grads, mesh) if split else grads, row_grads)

    def device_gradients(self, shared: _Shared, carry: Carry, rows: Array | None) -> Any:
        """Return `forward_backward` of a device's slots, computed in microbatches."""
        pieces = self.config.execution.micro_batches
        if pieces in (1, "auto"):  # "auto" is replaced by a number when a step is compiled for a device
            return self.forward_backward(shared, carry, rows)

        def piece(grads: Any, part: tuple[Carry, Array | None]) -> Any:
            aux, (more, row_grads) = self.forward_backward(shared, *part)
            return jax.tree.map(jnp.add, grads, more), (aux, row_grads)

        zeros = jax.tree.map(jnp.zeros_like, shared.params)
        grads, by_piece = lax.scan(piece, zeros, into_pieces((carry, rows), pieces))
        aux, row_grads = from_pieces(by_piece)
        return aux, (grads, row_grads)

    def forward_backward(self, shared: _Shared, carry: Carry, rows: Array | None) -> Any:
        """Return outputs and losses, and the gradients of loss / global batch for the parameters and the slots' rows.

        Args:
            shared: Values shared by all slots.
            carry: Carry of some of the slots.
            rows: Puzzle-embedding rows of these slots.
        """
        scale = shared.scale
        # The slots have their rows, so the network needs no table; no device holds the whole table.
        table = None if rows is None else jnp.zeros((0, rows.shape[1]), rows.dtype)

        def objective(params: Any, rows: Array | None) -> Any:
            network = merge(self.model, params, shared.fixed, table)
            outputs = network(carry.states, carry.current["inputs"], rows)
            losses = self.losses(network, carry, outputs, rows, shared.max_steps)
            outputs = outputs._replace(cycle_change=None)
            if not self.with_detail:
                outputs = outputs._replace(logits=None)
            loss = losses.total() / shared.slots
            return loss if scale is None else loss * scale, (outputs, losses)

        (_, aux), grads = jax.value_and_grad(objective, argnums=(0, 1), has_aux=True)(shared.params, rows)
        return aux, grads if scale is None else jax.tree.map(lambda g: g / scale, grads)

    def losses(
        self,
        network: Network,
        carry: Carry,
        outputs: Outputs,
        rows: Array | None,
        max_steps: int | Int[Array, ""],
    ) -> Losses:
        """Return all terms of the loss, for every slot."""
        loss, q_logits = self.config.loss, outputs.q_logits
        losses = slot_losses(
            outputs.logits, q_logits[:, 0], carry.current["labels"], self.spec.ignore_label, loss.cells
        )
        if network.continue_loss:
            target = self.continue_target(network, carry, outputs, rows, max_steps)
            of_continue = binary_cross_entropy(q_logits[:, 1], target)
            losses = losses._replace(q_continue=of_continue, continue_target=target)
        if loss.cycle_consistency:
            if outputs.cycle_change is None:
                raise ConfigError(
                    f"loss.cycle_consistency: model.architecture {self.config.model.architecture} has no cycles (got "
                    f"{loss.cycle_consistency:g}; expected 0). Leave the option out."
                )
            losses = losses._replace(added=loss.cycle_consistency * outputs.cycle_change)
        if loss.supervision_decay != 1:
            losses = losses._replace(weight=loss.supervision_decay ** carry.steps.astype(jnp.float32))
        return losses

    def continue_target(
        self,
        network: Network,
        carry: Carry,
        outputs: Outputs,
        rows: Array | None,
        max_steps: int | Int[Array, ""],
    ) -> Float[Array, " B"]:
        """Return the target of the continue logit from one more supervision step of each slot, without gradient."""
        states = lax.stop_gradient(outputs.states)
        further = network.q_logits(network.think(states, carry.current["inputs"], rows))
        last = carry.steps + 1 >= max_steps
        return continue_target(lax.stop_gradient(further), last)

    def max_steps(self, taken: Int[Array, ""]) -> int | Int[Array, ""]:
        """Return the maximum number of supervision steps of a slot, at the training step after `taken` steps."""
        model = self.config.model
        if not model.halt_first_max_steps:
            return model.halt_max_steps
        # Each maximum is used for the same number of steps.
        rising = Linear(model.halt_first_max_steps, model.halt_max_steps + 1)
        now = jnp.floor(jnp.asarray(value_at(rising, taken + 1, self.config.total_steps)))
        return jnp.minimum(now.astype(jnp.int32), model.halt_max_steps)

    def advance(self, state: TrainState, network: Network, carry: Carry, outputs: Outputs) -> Carry:
        """Return the carry after this step: new states, one step more, and which slots have halted."""
        steps, max_steps = carry.steps + 1, self.max_steps(state.step)
        exploration = self.config.model.halt_exploration_prob
        probability = value_at(exploration, state.step + 1, self.config.total_steps)
        min_steps = exploration_min_steps(state.key, state.step, steps.shape[0], probability, max_steps)
        return Carry(
            states=lax.stop_gradient(outputs.states),
            steps=steps,
            halted=halt(steps, network.halt_margin(outputs.q_logits), min_steps, max_steps),
            current=carry.current,
        )

    def update(
        self, state: TrainState, carry: Carry, grads: Any, row_grads: Array | None
    ) -> tuple[TrainState, Metrics]:
        """Update parameters, puzzle table and EMA; return the state, and the norms of gradient and parameter change."""
        norms = {"grad_norm": optax.tree.norm(grads), "update_norm": jnp.float32(0.0)}
        step, optim = state.step + 1, self.config.optim
        params, opt_state, ema, table = state.params, state.opt_state, state.ema, state.puzzle_table
        if not optim.freeze_weights:
            changes, opt_state = self.optimizer.update(grads, opt_state, params)
            norms["update_norm"] = optax.tree.norm(changes)
            params = optax.apply_updates(params, changes)
            ema = update_ema(ema, params, optim.ema_rate)
        if table is not None and row_grads is not None:
            rate = optim.puzzle_emb_lr * self.schedule(step)
            identifiers = carry.current["puzzle_identifiers"]
            update = partial(sign_sgd, learning_rate=rate, weight_decay=optim.puzzle_emb_weight_decay)
            table = update_rows(update, table, row_grads, identifiers, self.mesh)
        if isinstance(state.opt_state, Scaled):
            finite = all_finite((grads, row_grads))
            opt_state = after_step(cast(Scaled, opt_state), state.opt_state, finite)
            before = state.params, state.ema, state.puzzle_table
            params, ema, table = chosen(finite, (params, ema, table), before)
            norms["update_norm"] = jnp.where(finite, norms["update_norm"], 0.0)
        new_state = dataclasses.replace(
            state,
            params=params,
            opt_state=opt_state,
            ema=ema,
            puzzle_table=table,
            carry=carry,
            step=step,
        )
        return new_state, norms


def into_pieces(tree: Any, pieces: int) -> Any:
    """Reshape arrays from [B, ...] to [pieces, B / pieces, ...]."""
    return jax.tree.map(lambda x: x.reshape(pieces, -1, *x.shape[1:]), tree)


def from_pieces(tree: Any) -> Any:
    """Inverse of `into_pieces`."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)
