"""Compiles a run's steps before the first one, with a local cache of compiled programs.

A second start of the run, or another run with the same shapes, reads the program from the cache.

Several steps are one program with one dispatch and rows held by the devices: a loop over one step, whose number of
steps is an argument. So any grouping of steps runs the same program on the same numbers, without recompiling. With one
step per dispatch there is no loop; results are then equal up to rounding.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax
from jax.sharding import Mesh
from jaxtyping import Array, Int

from trm_data.storage.cache import user_cache
from trm_train.config.run import InputSpec, RunConfig
from trm_train.errors import ConfigError
from trm_train.mesh import (
    Exchange,
    batch_sharding,
    batches_sharding,
    exchanges,
    jit_train_step,
    on_cpu,
    replicated,
)
from trm_train.state import TrainState, abstract_state, abstract_weights
from trm_train.step.train import TrainStep, make_train_step

CACHED_POSITIONS = 1_200
"""Most positions (examples times their length) of a microbatch on a CPU, whose caches then hold its activations."""
SHRINK = 0.9
"""Lower bound of how temporaries shrink: with n times as many microbatches, they keep at least this share of 1/n."""


@dataclass(frozen=True)
class CompiledStep:
    """A compiled training step and its properties.

    Attributes:
        stages: Last step and program of each training stage; a program is called with the state and `Given`.
        given: Shapes, types and shardings of the input besides the state.
        batch: Shapes and types of a batch.
        num_parameters: Number of trained parameters of the network.
        num_embedding_parameters: Number of elements of the puzzle-embedding table, padding included.
        seconds: Time to trace and compile, or to read from the cache (s).
        memory_bytes: Arguments, results and temporaries on one device, for the stage that needs most; None if the
            backend does not report it.
        micro_batches: Number of microbatches in a batch.
    """

    stages: list[tuple[int, Any]]
    given: Given
    batch: dict[str, jax.ShapeDtypeStruct]
    num_parameters: int
    num_embedding_parameters: int
    seconds: float
    memory_bytes: dict[str, int] | None
    micro_batches: int = 1

    @property
    def peak_bytes(self) -> int | None:
        """Memory that a device needs: arguments, temporaries, and results that do not reuse an argument's memory."""
        memory = self.memory_bytes
        if memory is None:
            return None
        return memory["arguments"] + memory["temporaries"] + max(memory["results"] - memory["donated"], 0)

    @property
    def exchanges(self) -> list[Exchange]:
        """Arrays that devices exchange in a step of the last stage, the largest first."""
        return exchanges(self.stages[-1][1].as_text())

    def at(self, step: int) -> Any:
        """Return the program for a step, counted from 1; after the last stage, that of the last stage."""
        return next((program for end, program in self.stages if step <= end), self.stages[-1][1])


def use_compilation_cache() -> None:
    """Cache all compiled programs in the user's cache, for every root; a cache folder set for jax is kept."""
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        folder = user_cache() / "xla"
        folder.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(folder))
    if jax.default_backend() != "gpu":
        # The default puts the path of a GPU's autotuning cache into every key: a moved cache is never hit (jax 0.10.2).
        jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def compile_train_step(
    config: RunConfig, spec: InputSpec, mesh: Mesh, num_rows: int = 0, limit_bytes: int | None = None
) -> tuple[CompiledStep, TrainState, nnx.GraphDef]:
    """Return the compiled training step, the shapes of its state (both on the mesh), and the model.

    With `execution.micro_batches` auto, numbers of microbatches are tried until a program fits; a CPU starts with
    microbatches that fit into its caches, unless `limit_bytes` stands for another device.

    Args:
        config: Configuration of the run.
        spec: Input sizes of the dataset.
        mesh: Mesh of the devices.
        num_rows: Number of training rows, which the devices hold with `execution.device_rows`.
        limit_bytes: Memory of one device; None for the limit that the devices report.

    Raises:
        ConfigError: With auto, the step does not fit with any number of microbatches.
    """
    if config.execution.micro_batches != "auto":
        return _compile(config, spec, mesh, num_rows)
    limit = limit_bytes if limit_bytes is not None else usable_bytes(mesh)
    slots = config.data.global_batch_size // mesh.shape["data"]
    counts = [pieces for pieces in range(1, slots + 1) if slots % pieces == 0]
    if limit_bytes is None and on_cpu(mesh):
        pieces = cached_pieces(slots, config.model.puzzle_positions + spec.sequence_length)
        counts = [count for count in counts if count >= pieces]
    while True:
        pieces = counts.pop(0)
        try:
            found = _compile(_in_pieces(config, pieces), spec, mesh, num_rows)
        except jax.errors.JaxRuntimeError as error:
            refused = bytes_refused(error)
            if refused is None:
                raise
            needed, limit = refused
            temporaries = needed
        else:
            needed, memory = found[0].peak_bytes, found[0].memory_bytes
            if limit is None or memory is None or needed is None or needed <= limit:
                return found
            temporaries = memory["temporaries"]
        if not counts:
            raise ConfigError(
                f"execution.micro_batches auto: the step does not fit into a device, even in {pieces} microbatches of "
                f"one example (got {needed / 1e9:,.1f} GB, {(needed - limit) / 1e9:,.1f} GB too much; expected at most "
                f"{limit / 1e9:,.1f} GB). Use more devices, or --execution.rematerialise."
            )
        # Temporaries shrink at most in proportion to the microbatch, so counts below this bound cannot fit.
        rest = needed - temporaries
        counts = [more for more in counts if rest + SHRINK * temporaries * pieces / more <= limit] or counts[
            -1:
        ]


def cached_rows(length: int) -> int:
    """Return the most rows whose activations fit into a CPU's caches; a single row is slower than two, at any length.

    Measured on two cores with 2 MB of L2 cache each: docs/performance.md.
    """
    return max(CACHED_POSITIONS // length, 2)


def cached_pieces(slots: int, length: int) -> int:
    """Return the number of microbatches of a CPU: of at most `cached_rows`, or 1 if only far smaller ones divide."""
    most = cached_rows(length)
    rows = max(count for count in range(1, min(most, slots) + 1) if slots % count == 0)
    return slots // rows if 2 * rows > most or rows == slots else 1


def bytes_refused(error: Exception) -> tuple[int, int] | None:
    """Return the memory that a program needs and that a device has, from a TPU compiler error, or None."""
    forms = (
        r"Used ([\d.]+)([KMGT]) of ([\d.]+)([KMGT]) hbm",
        r"HLO temporaries \(([\d.]+)([KMGT])\) exceeds available HBM \(([\d.]+)([KMGT])\)",
    )
    found = next((match for form in forms if (match := re.search(form, str(error)))), None)
    if found is None:
        return None
    units = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
    return int(float(found[1]) * units[found[2]]), int(float(found[3]) * units[found[4]])


def usable_bytes(mesh: Mesh) -> int | None:
    """Return the smallest usable memory among this process's devices; None if one of them does not report it."""
    found = [(device.memory_stats() or {}).get("bytes_limit") for device in mesh.local_devices]
    known = [limit for limit in found if limit is not None]
    return min(known) if known and len(known) == len(found) else None


def _in_pieces(config: RunConfig, pieces: int) -> RunConfig:
    return replace(config, execution=replace(config.execution, micro_batches=pieces))


def _compile(
    config: RunConfig, spec: InputSpec, mesh: Mesh, num_rows: int
) -> tuple[CompiledStep, TrainState, nnx.GraphDef]:
    """Compile the training step with a fixed number of microbatches; see `compile_train_step`."""
    model, state = abstract_state(config, spec, config.data.global_batch_size, mesh)
    begun = time.perf_counter()
    given = given_element(config, spec, mesh, num_rows)
    stages: list[tuple[int, Any]] = []
    for end, network in config.model.stages(config.total_steps):
        stage = replace(config, model=network)
        definition = model if network == config.model else abstract_weights(stage, spec, mesh)[0]
        step = make_train_step(stage, spec, definition, mesh=mesh)
        program = make_program(step, config.execution.steps_per_dispatch)
        jitted: Any = jit_train_step(program, mesh, state, jax.tree.map(lambda leaf: leaf.sharding, given))
        stages.append((end, jitted.lower(state, given).compile()))
    table = state.puzzle_table
    memory = [found for _, program in stages if (found := memory_of(program)) is not None]
    step = CompiledStep(
        stages=stages,
        given=given,
        batch=batch_element(config, spec, mesh),
        num_parameters=sum(leaf.size for leaf in jax.tree.leaves(state.params)),
        num_embedding_parameters=0 if table is None else table.size,
        seconds=time.perf_counter() - begun,
        memory_bytes=max(memory, key=lambda parts: parts["temporaries"], default=None),
        micro_batches=int(config.execution.micro_batches),
    )
    return step, state, model


def batch_element(config: RunConfig, spec: InputSpec, mesh: Mesh) -> dict[str, jax.ShapeDtypeStruct]:
    """Return shapes, types and shardings of a global batch."""
    rows, placed = config.data.global_batch_size, batch_sharding(mesh)
    cells = (rows, spec.sequence_length)
    numbers = ("puzzle_identifiers", "tasks") if config.data.is_mixture else ("puzzle_identifiers",)
    return {
        "inputs": jax.ShapeDtypeStruct(cells, np.uint8, sharding=placed),
        "labels": jax.ShapeDtypeStruct(cells, np.uint8, sharding=placed),
        **{name: jax.ShapeDtypeStruct((rows,), np.int32, sharding=placed) for name in numbers},
    }


def given_element(config: RunConfig, spec: InputSpec, mesh: Mesh, num_rows: int) -> Given:
    """Return shapes, types and shardings of a program's input besides the state."""
    slots, most = config.data.global_batch_size, config.execution.steps_per_dispatch
    batch, held, count = batch_element(config, spec, mesh), None, None
    everywhere = replicated(mesh)
    if config.execution.device_rows:
        held = {
            name: jax.ShapeDtypeStruct((num_rows, *one.shape[1:]), one.dtype, sharding=everywhere)
            for name, one in batch.items()
        }
        batch = {"rows": jax.ShapeDtypeStruct((slots,), np.int32, sharding=batch_sharding(mesh))}
    if most > 1:
        placed = batches_sharding(mesh)
        batch = {
            name: jax.ShapeDtypeStruct((most, *one.shape), one.dtype, sharding=placed)
            for name, one in batch.items()
        }
        count = jax.ShapeDtypeStruct((), np.int32, sharding=everywhere)
    return Given(batch, count, held)


def memory_of(compiled: Any) -> dict[str, int] | None:
    """Return the sizes of arguments, results, temporaries and donated arguments of a program on one device (bytes)."""
    analysis = compiled.memory_analysis()
    if analysis is None:
        return None
    return {
        "arguments": analysis.argument_size_in_bytes,
        "results": analysis.output_size_in_bytes,
        "temporaries": analysis.temp_size_in_bytes,
        "donated": analysis.alias_size_in_bytes,
    }


class Given(NamedTuple):
    """Input of a program besides the state: from the host, or as shapes. At most K steps, of B slots."""

    batch: Mapping[str, Any]
    """A batch [B, ...] if K is 1, else [K, B, ...]. If devices hold the rows, it has only their numbers, `rows`."""
    steps: Int[Array, ""] | Any = None
    """Number of the K steps to take, from the first; None if K is 1."""
    held: Mapping[str, Any] | None = None
    """Rows that devices hold, [N, ...]; None if batches contain their rows."""


def make_program(train_step: TrainStep, most: int) -> Callable[[TrainState, Given], tuple[TrainState, Any]]:
    """Make `train_steps(state, given) -> (state, metrics)`, to be jitted with the state donated.

    Args:
        train_step: From `make_train_step`.
        most: K. Above 1, metrics are [K, ...]; those of steps not taken are 0.
    """

    def take(state: TrainState, batch: Mapping[str, Any], held: Mapping[str, Any] | None) -> Any:
        if held is not None:
            batch = {name: rows[batch["rows"]] for name, rows in held.items()}
        return train_step(state, batch)

    def train_steps(state: TrainState, given: Given) -> tuple[TrainState, Any]:
        batches, steps, held = given
        if most == 1:
            return take(state, batches, held)

        def one(index: Array, taken: tuple[TrainState, Any]) -> tuple[TrainState, Any]:
            state, metrics = taken
            batch = {name: lax.dynamic_index_in_dim(x, index, keepdims=False) for name, x in batches.items()}
            state, found = take(state, batch, held)
            return state, jax.tree.map(lambda whole, value: whole.at[index].set(value), metrics, found)

        first = {name: x[0] for name, x in batches.items()}
        shapes = jax.eval_shape(take, state, first, held)[1]
        none = jax.tree.map(lambda shape: jnp.zeros((most, *shape.shape), shape.dtype), shapes)
        return lax.fori_loop(0, steps, one, (state, none))

    return train_steps
