"""Compiles a run's steps ahead of the first one, through a cache on this machine.

A second start of the same run, or another run of the same shapes, reads the program instead of compiling it.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from trm_data.storage.machine import user_cache
from trm_train.config.run import InputSpec, RunConfig
from trm_train.mesh.collectives import Exchange, exchanges
from trm_train.mesh.sharding import batch_sharding, jit_train_step
from trm_train.state import TrainState, abstract_state, abstract_weights
from trm_train.step.train import make_train_step


@dataclass(frozen=True)
class CompiledStep:
    """A compiled training step and what is known of it.

    Attributes:
        stages: The last step of each stage of training, and its program, called with state and batch.
        batch: Shapes and types of the batch it takes.
        num_parameters: Trained parameters of the network.
        num_embedding_parameters: Elements of the puzzle-embedding table, padding included.
        seconds: Time it took to trace and compile, or to read from the cache.
        memory_bytes: Arguments, results and temporaries on one device, of the stage that needs most; None where the
            backend does not say.
    """

    stages: list[tuple[int, Any]]
    batch: dict[str, jax.ShapeDtypeStruct]
    num_parameters: int
    num_embedding_parameters: int
    seconds: float
    memory_bytes: dict[str, int] | None

    @property
    def exchanges(self) -> list[Exchange]:
        """What devices send each other in a step of the last stage, the largest first."""
        return exchanges(self.stages[-1][1].as_text())

    def at(self, step: int) -> Any:
        """The program that takes a step, counted from 1; beyond the last stage it is that of the last."""
        return next((program for end, program in self.stages if step <= end), self.stages[-1][1])


def use_compilation_cache() -> None:
    """Keep compiled programs in the user's cache, all of them, for every root; jax's own setting is left as it is."""
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        folder = user_cache() / "xla"
        folder.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def compile_train_step(
    config: RunConfig, spec: InputSpec, mesh: Mesh
) -> tuple[CompiledStep, TrainState, nnx.GraphDef]:
    """The compiled training step, the shapes of its state, both over the mesh, and the model."""
    model, state = abstract_state(config, spec, config.data.global_batch_size, mesh)
    begun = time.perf_counter()
    batch = batch_element(config, spec, mesh)
    stages: list[tuple[int, Any]] = []
    for end, network in config.model.stages(config.total_steps):
        stage = replace(config, model=network)
        definition = model if network == config.model else abstract_weights(stage, spec)[0]
        step = make_train_step(stage, spec, definition, mesh=mesh)
        jitted: Any = jit_train_step(step, mesh, state)
        stages.append((end, jitted.lower(state, batch).compile()))
    table = state.puzzle_table
    memory = [found for _, program in stages if (found := _memory(program)) is not None]
    step = CompiledStep(
        stages=stages,
        batch=batch,
        num_parameters=sum(leaf.size for leaf in jax.tree.leaves(state.params)),
        num_embedding_parameters=0 if table is None else table.size,
        seconds=time.perf_counter() - begun,
        memory_bytes=max(memory, key=lambda parts: parts["temporaries"], default=None),
    )
    return step, state, model


def batch_element(config: RunConfig, spec: InputSpec, mesh: Mesh) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes, types and layout of a global batch."""
    rows, placed = config.data.global_batch_size, batch_sharding(mesh)
    cells = (rows, spec.sequence_length)
    return {
        "inputs": jax.ShapeDtypeStruct(cells, np.uint8, sharding=placed),
        "labels": jax.ShapeDtypeStruct(cells, np.uint8, sharding=placed),
        "puzzle_identifiers": jax.ShapeDtypeStruct((rows,), np.int32, sharding=placed),
    }


def _memory(compiled: Any) -> dict[str, int] | None:
    analysis = compiled.memory_analysis()
    if analysis is None:
        return None
    return {
        "arguments": analysis.argument_size_in_bytes,
        "results": analysis.output_size_in_bytes,
        "temporaries": analysis.temp_size_in_bytes,
        "donated": analysis.alias_size_in_bytes,
    }
