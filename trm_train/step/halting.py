"""A supervision step of an evaluation with halting: as in training, a slot that has halted loads the next row.

So no slot works on a row that already has its answer. As in training, the caller provides a row of the next batch for
every halted slot. It reads the answers of the slots that have halted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh

from trm_train.config.run import InputSpec, RunConfig
from trm_train.mesh.sharding import whole
from trm_train.mesh.table import look_up
from trm_train.model.act import Carry, halt, initial_carry, refill
from trm_train.model.base import merge
from trm_train.state import Weights
from trm_train.step.answers import Answers, answers
from trm_train.step.batch import Batch
from trm_train.step.think import make_think

HaltingStep = Callable[[Weights, Carry, Batch], tuple[Carry, Answers]]


def make_halting_step(
    config: RunConfig, spec: InputSpec, model: nnx.GraphDef, *, max_steps: int, mesh: Mesh | None = None
) -> HaltingStep:
    """Make `halting_step(weights, carry, batch) -> (carry, Answers)`, without exploration.

    Args:
        config: Configuration of the run.
        spec: Input sizes of the dataset.
        model: Definition from `init_state`.
        max_steps: Maximum number of supervision steps of a row.
        mesh: Mesh that rows and puzzle table are spread over; None for one device.
    """

    def halting_step(weights: Weights, carry: Carry, batch: Batch) -> tuple[Carry, Answers]:
        network = merge(model, whole(weights.params, mesh), weights.fixed, weights.puzzle_table)
        think = make_think(model, weights, mesh)
        batch = {name: values.astype(jnp.int32) for name, values in batch.items()}
        slots = carry.steps.shape[0]
        carry = refill(carry, batch, network.initial_states(slots))
        rows = look_up(weights.puzzle_table, carry.current["puzzle_identifiers"], mesh)
        states = think(carry.states, carry.current["inputs"], rows)
        q_logits = network.q_logits(states)
        margins, steps = network.halt_margin(q_logits), carry.steps + 1
        halted = halt(steps, margins, jnp.ones((slots,), jnp.int32), max_steps)
        found = answers(
            network.logits(states),
            q_logits,
            margins,
            jnp.where(margins > 0, steps, 0),
            carry.current["labels"],
            spec.ignore_label,
            config.loss.cells,
        )
        return Carry(states=states, steps=steps, halted=halted, current=carry.current), found

    return halting_step


def empty_slots(weights: Weights, model: nnx.GraphDef, slots: int, cells: int) -> Any:
    """Return the carry before the first step: every slot is halted and loads a row."""
    network = merge(model, weights.params, weights.fixed, weights.puzzle_table)
    return initial_carry(slots, cells, network.initial_states(slots))
