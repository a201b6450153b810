"""The state of a training run: one pytree, and how it starts."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh

from trm_train.config.run import InputSpec, RunConfig
from trm_train.mesh import sharding
from trm_train.model.act import KEY_IMPLEMENTATION, Carry, initial_carry
from trm_train.model.embedding import puzzle_positions
from trm_train.model.trm import TRM, split
from trm_train.optim.build import make_optimizer


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Everything a training step reads and writes; leaves are arrays (or stand-ins, as in any pytree)."""

    params: dict[str, Any]
    """Trained parameters, float32, nested by module."""
    opt_state: Any
    """`AdamATan2State`: `count`, `m`, `v`."""
    ema: dict[str, Any]
    """Average of `params`."""
    puzzle_table: Any
    """Float32 [R, N], R a multiple of `TABLE_ROWS_MULTIPLE`; None without puzzle positions."""
    fixed: dict[str, Any]
    """`h_init` and `l_init`, float32 [D]."""
    carry: Carry
    step: Any
    """Training steps taken, int32."""
    key: Any
    """uint32 [2]: key that every random draw of training is folded from; it never changes."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Weights:
    """What an evaluation needs of a state."""

    params: dict[str, Any]
    fixed: dict[str, Any]
    puzzle_table: Any


def eval_weights(state: TrainState) -> Weights:
    """The averaged parameters, with the raw puzzle table and latents: what evaluation uses."""
    return Weights(params=state.ema, puzzle_table=state.puzzle_table, fixed=state.fixed)


def init_state(
    config: RunConfig, spec: InputSpec, batch_size: int, mesh: Mesh | None = None
) -> tuple[nnx.GraphDef, TrainState]:
    """The model's definition and the state before the first step.

    Args:
        config: of the run; every draw comes from `config.seed`.
        spec: of the dataset.
        batch_size: slots of the global batch.
        mesh: where given, the state is created in place on its devices (also with several processes).

    Raises:
        ConfigError: if the model cannot be run as configured.
    """

    def make_network(key: jax.Array) -> TRM:
        params_key, latents_key = jax.random.split(key)
        return TRM(config.model, spec, rngs=nnx.Rngs(params=params_key, latents=latents_key))

    def start() -> TrainState:
        network_key, training_key = jax.random.split(jax.random.key(config.seed, impl=KEY_IMPLEMENTATION))
        _, params, fixed, table = split(make_network(network_key))
        return start_state(config, spec, batch_size, params, fixed, table, jax.random.key_data(training_key))

    abstract = nnx.eval_shape(lambda: make_network(jax.random.key(0, impl=KEY_IMPLEMENTATION)))
    definition = split(abstract)[0]
    shardings = None if mesh is None else sharding.state_shardings(mesh, jax.eval_shape(start))
    return definition, jax.jit(start, out_shardings=shardings)()


def start_state(
    config: RunConfig,
    spec: InputSpec,
    batch_size: int,
    params: dict[str, Any],
    fixed: dict[str, Any],
    puzzle_table: Any,
    key: jax.Array,
) -> TrainState:
    """The state before the first step, for given weights: fresh moments, an empty carry, step 0."""
    length = puzzle_positions(config.model) + spec.sequence_length
    return TrainState(
        params=params,
        opt_state=make_optimizer(config).init(params),
        ema=jax.tree.map(jnp.copy, params),
        puzzle_table=puzzle_table,
        fixed=fixed,
        carry=initial_carry(
            batch_size, spec.sequence_length, length, config.model.hidden_size, config.model.forward_dtype
        ),
        step=jnp.zeros((), jnp.int32),
        key=key,
    )
