"""Several answers a row: every sample thinks with noise on its latent states, before each supervision step.

The noise of a sample follows from seed, row of the split, number of the sample and supervision step alone, so it does
not depend on batches or devices, and the first K samples are the same whatever their number is.
Source: PTRM (Sghaier, Parviz and Jolicoeur-Martineau 2026), Gaussian noise on the latent at every supervision step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.sharding import Mesh
from jaxtyping import Array

from trm_train.config.run import InputSpec, RunConfig
from trm_train.errors import ConfigError
from trm_train.mesh.sharding import whole
from trm_train.mesh.table import look_up
from trm_train.model.act import KEY_IMPLEMENTATION
from trm_train.model.base import States, merge
from trm_train.state import Weights
from trm_train.step.answers import Answers, answers
from trm_train.step.batch import Batch

SampleStep = Callable[[Weights, Batch], Answers]


def make_sample_step(
    config: RunConfig,
    spec: InputSpec,
    model: nnx.GraphDef,
    *,
    steps: int,
    samples: int,
    noise: float,
    seed: int,
    mesh: Mesh | None = None,
) -> SampleStep:
    """Makes `sample_step(weights, batch) -> Answers` with leaves [samples, B, ...]; a batch has `row` (int32 [B]).

    Args:
        config: Of the run.
        spec: Of the dataset.
        model: Definition from `init_state`.
        steps: Supervision steps.
        samples: Answers a row, K.
        noise: Standard deviation, in units of the states (which are normed to a root mean square of 1).
        seed: Of the noise.
        mesh: Devices that rows and puzzle table are spread over; None where there is one.
    """

    def sample_step(weights: Weights, batch: Batch) -> Answers:
        network = merge(model, whole(weights.params, mesh), weights.fixed, weights.puzzle_table)
        if not network.latents:
            raise ConfigError(
                f"{config.model.architecture}: names no latent states that noise could be added to"
            )
        inputs, labels = (batch[name].astype(jnp.int32) for name in ("inputs", "labels"))
        rows = look_up(weights.puzzle_table, batch["puzzle_identifiers"].astype(jnp.int32), mesh)
        base = jax.random.key(seed, impl=KEY_IMPLEMENTATION)
        keys = jax.vmap(lambda row: jax.random.fold_in(base, row))(batch["row"].astype(jnp.uint32))

        def noisy(states: States, keys: Array, number: Array) -> States:
            def draw(key: Array, index: int, shape: tuple[int, ...]) -> Array:
                step_key = jax.random.fold_in(jax.random.fold_in(key, number), index)
                return jax.random.normal(step_key, shape, jnp.float32)

            changed: States = {}
            for index, name in enumerate(network.latents):
                state = states[name]
                drawn = jax.vmap(lambda key, i=index, shape=state.shape[1:]: draw(key, i, shape))(keys)
                changed[name] = (state.astype(jnp.float32) + noise * drawn).astype(state.dtype)
            return {**states, **changed}

        def one(sample: Array) -> Answers:
            mine = jax.vmap(lambda key: jax.random.fold_in(key, sample))(keys)

            def supervision_step(states: States, number: Array) -> tuple[States, Any]:
                states = network.think(noisy(states, mine, number), inputs, rows)
                q_logits = network.q_logits(states)
                return states, (q_logits, network.halt_margin(q_logits))

            initial = network.initial_states(inputs.shape[0])
            states, (q_logits, margins) = lax.scan(supervision_step, initial, jnp.arange(steps))
            halting = margins > 0
            halt_steps = jnp.where(halting.any(axis=0), jnp.argmax(halting, axis=0) + 1, 0)
            last = network.logits(states), q_logits[-1], margins[-1], halt_steps
            return answers(*last, labels, spec.ignore_label, config.loss.cells)

        return lax.map(one, jnp.arange(samples))

    return sample_step
