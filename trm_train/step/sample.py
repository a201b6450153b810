"""Supervision steps of evaluations with several answers per row, or with halting.

Several answers: noise is added to the latent states of every sample before each supervision step. The noise of a sample
depends only on the seed, the row number in the split, the sample number and the supervision step. So it is independent
of batches and devices, and the first K samples are the same for any total number.
Source: PTRM (Sghaier, Parviz and Jolicoeur-Martineau 2026), Gaussian noise on the latent at every supervision step.

Halting: as in training, a slot that has halted loads the next row, so no slot works on a row that already has its
answer. The caller provides a row of the next batch for every halted slot, and reads the answers of the slots that have
halted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from trm_train.config.optim import CellLoss
from trm_train.config.run import InputSpec, RunConfig
from trm_train.errors import ConfigError
from trm_train.mesh import look_up, whole
from trm_train.model.act import KEY_IMPLEMENTATION, Carry, halt, initial_carry, refill
from trm_train.model.base import States, merge
from trm_train.objective import slot_losses
from trm_train.state import Weights
from trm_train.step.think import Batch, make_think


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Answers:
    """Answers of B rows after a supervision step; with samples, every leaf has a leading axis K (number of samples)."""

    predictions: Any
    """int32 [B, S]: predicted tokens."""
    q_halt_logits: Any
    """float32 [B]: halting logits."""
    margins: Any
    """float32 [B]: confidence in the answer of a row; training halts above 0."""
    halt_steps: Any
    """int32 [B]: first supervision step with a margin above 0; 0 if none."""
    labelled_cells: Any
    """int32 [B]: cells with a label; 0 for padding rows and rows without a known answer."""
    wrong_cells: Any
    """int32 [B]: wrong labelled cells."""
    lm_loss: Any
    """float32 [B]: mean cross-entropy over the labelled cells."""
    residuals: Any = None
    """float32 [B]: root mean square change of the answer state in the last supervision step; None if not computed."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Course:
    """K samples of B rows after every supervision step, and their answers after D of the steps."""

    predictions: Any
    """int32 [K, D, B, S]: predicted tokens."""
    margins: Any
    """float32 [K, steps, B]: as in `Answers`."""
    residuals: Any
    """float32 [K, steps, B]: as in `Answers`."""
    wrong_cells: Any
    """int32 [K, steps, B]: wrong labelled cells."""


def answers(
    logits: Float[Array, "B S V"],
    q_logits: Float[Array, "B 2"],
    margins: Float[Array, " B"],
    halt_steps: Int[Array, " B"],
    labels: Int[Array, "B S"],
    ignore_label: int,
    cells: CellLoss,
    residuals: Float[Array, " B"] | None = None,
) -> Answers:
    """Return the answers of a network after a supervision step, scored against the labels."""
    losses = slot_losses(logits, q_logits[:, 0], labels, ignore_label, cells)
    return Answers(
        predictions=losses.predictions,
        q_halt_logits=q_logits[:, 0],
        margins=margins,
        halt_steps=jnp.asarray(halt_steps, jnp.int32),
        labelled_cells=losses.labelled,
        wrong_cells=losses.labelled - losses.correct,
        lm_loss=losses.lm,
        residuals=residuals,
    )


SampleStep = Callable[[Weights, Batch], tuple[Answers, Course | None]]
FIRST = 0xFFFF_FFFF
"""Key of the draw of the initial states: a number that no supervision step has."""


def make_sample_step(
    config: RunConfig,
    spec: InputSpec,
    model: nnx.GraphDef,
    *,
    steps: int,
    samples: int,
    noise: float,
    seed: int,
    random_start: bool = False,
    depths: tuple[int, ...] = (),
    mesh: Mesh | None = None,
) -> SampleStep:
    """Make `sample_step(weights, batch) -> (Answers, Course)`, leaves [samples, ...]; a batch has `row` (int32 [B]).

    Args:
        config: Configuration of the run.
        spec: Input sizes of the dataset.
        model: Definition from `init_state`.
        steps: Number of supervision steps.
        samples: Number of answers per row, K.
        noise: Standard deviation, in units of the states (which are normalized to a root mean square of 1).
        seed: Seed of the noise.
        random_start: Whether every sample starts from its own states, drawn from a normal distribution.
        depths: Supervision steps whose answers the `Course` contains, ascending; empty for no `Course`.
        mesh: Mesh that rows and puzzle table are spread over; None for one device.
    """

    slots = np.full(steps, -1, np.int32)
    slots[np.array(depths, np.int64) - 1] = np.arange(len(depths))

    def sample_step(weights: Weights, batch: Batch) -> tuple[Answers, Course | None]:
        network = merge(model, whole(weights.params, mesh), weights.fixed, weights.puzzle_table)
        think = make_think(model, weights, mesh)
        if not network.latents and noise:
            raise ConfigError(f"{config.model.architecture}: has no latent states for noise")
        inputs, labels = (batch[name].astype(jnp.int32) for name in ("inputs", "labels"))
        rows = look_up(weights.puzzle_table, batch["puzzle_identifiers"].astype(jnp.int32), mesh)
        base = jax.random.key(seed, impl=KEY_IMPLEMENTATION)
        keys = jax.vmap(lambda row: jax.random.fold_in(base, row))(batch["row"].astype(jnp.uint32))

        def one(sample: Array) -> tuple[Answers, Course | None]:
            mine = jax.vmap(lambda key: jax.random.fold_in(key, sample))(keys)

            def supervision_step(carry: tuple[States, Any], at: Any) -> tuple[Any, Any]:
                (before, held), (number, slot) = carry, at
                noisy = _with_noise(before, network.latents, mine, number, noise)
                states = think(noisy, inputs, rows)
                q_logits = network.q_logits(states)
                found = q_logits, network.halt_margin(q_logits), _change(before, states)
                if not depths:
                    return (states, held), (*found, None)
                said = jnp.argmax(network.logits(states), axis=-1).astype(jnp.int32)
                wrong = jnp.sum((said != labels) & (labels != spec.ignore_label), axis=-1, dtype=jnp.int32)
                here = (jnp.arange(len(depths)) == slot)[:, None, None]
                return (states, jnp.where(here, said[None], held)), (*found, wrong)

            first = network.initial_states(inputs.shape[0])
            held = jnp.zeros((len(depths), *inputs.shape), jnp.int32) if depths else None
            (states, held), (q_logits, margins, residuals, wrong) = lax.scan(
                supervision_step,
                (_drawn(first, mine) if random_start else first, held),
                (jnp.arange(steps), jnp.asarray(slots)),
            )
            last = network.logits(states), q_logits[-1], margins[-1], _first_halt(margins)
            course = Course(held, margins, residuals, wrong) if depths else None
            return answers(*last, labels, spec.ignore_label, config.loss.cells, residuals[-1]), course

        return lax.map(one, jnp.arange(samples))

    return sample_step


def _first_halt(margins: Array) -> Array:
    """Return the first step with a margin above 0, from 1, int32 [B]; 0 if none. Margins are [steps, B]."""
    halting = margins > 0
    return jnp.where(halting.any(axis=0), jnp.argmax(halting, axis=0) + 1, 0)


def _draw(keys: Array, number: Array | int, index: int, shape: tuple[int, ...]) -> Array:
    """Return normal draws for every row at a supervision step and for a state, float32 [B, ...]."""

    def of_row(key: Array) -> Array:
        step_key = jax.random.fold_in(jax.random.fold_in(key, number), index)
        return jax.random.normal(step_key, shape, jnp.float32)

    return jax.vmap(of_row)(keys)


def _with_noise(states: States, latents: tuple[str, ...], keys: Array, number: Array, noise: float) -> States:
    """Return the states with noise added to the latent ones."""
    changed: States = {}
    for index, name in enumerate(latents if noise else ()):
        state = states[name]
        drawn = _draw(keys, number, index, state.shape[1:])
        changed[name] = (state.astype(jnp.float32) + noise * drawn).astype(state.dtype)
    return {**states, **changed}


def _drawn(states: States, keys: Array) -> States:
    """Return states of the same shapes, drawn from a normal distribution."""
    return {
        name: _draw(keys, FIRST, index, state.shape[1:]).astype(state.dtype)
        for index, (name, state) in enumerate(sorted(states.items()))
    }


def _change(before: States, after: States) -> Array:
    """Return the RMS change of the answer state, float32 [B]: z_h, or the only state of networks without it."""
    name = "z_h" if "z_h" in after else min(after)
    change = after[name].astype(jnp.float32) - before[name].astype(jnp.float32)
    return jnp.sqrt(jnp.mean(jnp.square(change), axis=tuple(range(1, change.ndim))))


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
