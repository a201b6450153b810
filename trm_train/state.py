"""State of a training run, one pytree, and its initialization."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh

from trm_train.config.run import InputSpec, RunConfig
from trm_train.mesh import shardings, state_shardings
from trm_train.model.act import KEY_IMPLEMENTATION, Carry, initial_carry
from trm_train.model.base import Network, merge, split
from trm_train.model.networks import compute_on, make_network, platform_of
from trm_train.optim import make_optimizer


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Everything a training step reads and writes; leaves are arrays (or placeholders, as in any pytree)."""

    params: dict[str, Any]
    """Trained parameters, float32, nested by module."""
    opt_state: Any
    """State of the optimizer: any pytree of arrays."""
    ema: dict[str, Any]
    """Exponential moving average of `params`."""
    puzzle_table: Any
    """Float32 [R, N], R a multiple of `TABLE_ROWS_MULTIPLE`; None without puzzle positions."""
    fixed: dict[str, Any]
    """Initial states, drawn once, float32."""
    carry: Carry
    step: Any
    """Number of training steps taken, int32."""
    key: Any
    """uint32 [2]: constant key from which every random draw of training is derived."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Weights:
    """The part of a state that an evaluation needs."""

    params: dict[str, Any]
    fixed: dict[str, Any]
    puzzle_table: Any


def eval_weights(state: TrainState) -> Weights:
    """Return the weights for evaluation: averaged parameters, with the raw puzzle table and latents."""
    return Weights(params=state.ema, puzzle_table=state.puzzle_table, fixed=state.fixed)


def init_state(
    config: RunConfig,
    spec: InputSpec,
    batch_size: int,
    mesh: Mesh | None = None,
    weights: Weights | None = None,
) -> tuple[nnx.GraphDef, TrainState]:
    """Return the network's definition and the state before the first step.

    Args:
        config: Configuration of the run; every draw uses `config.seed`.
        spec: Input sizes of the dataset.
        batch_size: Number of slots of the global batch.
        mesh: If given, the state is created on its devices (also with several processes).
        weights: Initial weights, the same in every process; None draws them.
    """

    definition, shapes = abstract_state(config, spec, batch_size, mesh)
    placed = None if mesh is None else jax.tree.map(lambda leaf: leaf.sharding, shapes)
    return definition, jax.jit(partial(_start, config, spec, batch_size), out_shardings=placed)(weights)


def abstract_state(
    config: RunConfig, spec: InputSpec, batch_size: int, mesh: Mesh | None = None
) -> tuple[nnx.GraphDef, TrainState]:
    """Return the result of `init_state` with shapes in place of arrays; nothing is drawn or allocated."""
    definition, _ = abstract_weights(config, spec, mesh)
    shapes = jax.eval_shape(partial(_start, config, spec, batch_size), None)
    if mesh is None:
        return definition, shapes
    split_up = config.execution.shard_parameters
    return definition, _laid_out(shapes, state_shardings(mesh, shapes, shard_parameters=split_up))


def abstract_weights(
    config: RunConfig, spec: InputSpec, mesh: Mesh | None = None
) -> tuple[nnx.GraphDef, Weights]:
    """Return the network's definition, and shapes in place of its weights; nothing is drawn or allocated.

    Args:
        config: Configuration of the run.
        spec: Input sizes of the dataset.
        mesh: If given, every shape has its sharding over the devices.
    """
    key = jax.random.key(0, impl=KEY_IMPLEMENTATION)
    platform = platform_of(mesh)
    drawn = nnx.eval_shape(lambda: _draw_network(config, spec, key, platform))
    definition, params, fixed, table = split(drawn)

    def shapes(name: str, tree: Any) -> Any:
        return tree if mesh is None else _laid_out(tree, shardings(mesh, name, tree))

    return definition, Weights(
        params=shapes("params", params),
        fixed=shapes("fixed", fixed),
        puzzle_table=shapes("puzzle_table", table),
    )


def start_state(
    config: RunConfig,
    spec: InputSpec,
    batch_size: int,
    params: dict[str, Any],
    fixed: dict[str, Any],
    puzzle_table: Any,
    key: jax.Array,
) -> TrainState:
    """Return the state before the first step for given weights: a new optimizer state, an empty carry, step 0."""
    definition, _ = abstract_weights(config, spec)
    states = jax.eval_shape(lambda: merge(definition, params, fixed, puzzle_table).initial_states(batch_size))
    return TrainState(
        params=params,
        opt_state=make_optimizer(config).init(params),
        ema=jax.tree.map(jnp.copy, params),
        puzzle_table=puzzle_table,
        fixed=fixed,
        carry=initial_carry(batch_size, spec.sequence_length, states, tasks=config.data.is_mixture),
        step=jnp.zeros((), jnp.int32),
        key=key,
    )


def _start(config: RunConfig, spec: InputSpec, batch_size: int, weights: Weights | None) -> TrainState:
    """Return the state before the first step, drawn from the seed except for given weights."""
    network_key, training_key = jax.random.split(jax.random.key(config.seed, impl=KEY_IMPLEMENTATION))
    if weights is None:
        _, params, fixed, table = split(_draw_network(config, spec, network_key))
    else:
        params, fixed, table = weights.params, weights.fixed, weights.puzzle_table
    return start_state(config, spec, batch_size, params, fixed, table, jax.random.key_data(training_key))


def _laid_out(tree: Any, placed: Any) -> Any:
    """Add shardings to shapes."""
    return jax.tree.map(
        lambda leaf, where: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where), tree, placed
    )


def _draw_network(config: RunConfig, spec: InputSpec, key: jax.Array, platform: str = "cpu") -> Network:
    """Draw parameters and latents of the network from a key, and set it up for a platform."""
    params_key, latents_key = jax.random.split(key)
    network = make_network(config.model, spec, rngs=nnx.Rngs(params=params_key, latents=latents_key))
    network.recomputes = config.execution.rematerialise
    compute_on(network, platform)
    return network
