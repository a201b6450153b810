"""Eight devices give the same numbers as one, on any mesh; shardings are those of the table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trm_train.errors import ConfigError
from trm_train.mesh import make_mesh

FIRST_STEP, LATER_STEPS = 1e-6, 1e-4
"""Maximum relative differences of the metrics due to rounding, at the first step and over 20, at a rate of 1e-4."""
SCRIPT = """
import sys
import jax, numpy as np
from jax.sharding import PartitionSpec as P
from trm_train.config.data import DataConfig
from trm_train.config.run import ExecutionConfig
from trm_train.config.run import *
from trm_train.mesh import batch_sharding, jit_train_step, make_mesh
from trm_train.state import init_state
from trm_train.step.train import make_train_step

mixer = sys.argv[1]
model = ModelConfig(hidden_size=16, num_heads=2, num_layers=1, h_cycles=2, l_cycles=2, halt_max_steps=3,
                    halt_first_max_steps=2, halt_exploration_prob=0.5, puzzle_emb_len=2, puzzle_emb_ndim=20,
                    mixer=mixer, forward_dtype="float32")
optim = OptimConfig(lr=1e-4, lr_warmup_steps=2, puzzle_emb_lr=1e-4)
data = DataConfig(dataset="x", global_batch_size=16)
spec = InputSpec(sequence_length=9, vocabulary_size=6, num_identifiers=200)
for carried_out, path in zip(sys.argv[2::2], sys.argv[3::2]):
    model_parallel, micro_batches, shard_parameters = map(int, carried_out.split(","))
    config = RunConfig(data=data, model=model, optim=optim, total_steps=20,
                       execution=ExecutionConfig(micro_batches=micro_batches, shard_parameters=bool(shard_parameters)))
    mesh = make_mesh(model_parallel)
    definition, state = init_state(config, spec, 16, mesh)
    made = make_train_step(config, spec, definition, mesh=mesh)
    step = jit_train_step(made, mesh, state)
    totals = []
    for t in range(20):
        rng = np.random.default_rng(t)
        batch = {"inputs": rng.integers(1, 6, (16, 9)).astype(np.uint8),
                 "labels": rng.integers(2, 6, (16, 9)).astype(np.uint8),
                 "puzzle_identifiers": rng.integers(0, 200, 16).astype(np.int32)}
        batch = {k: jax.make_array_from_process_local_data(batch_sharding(mesh), v) for k, v in batch.items()}
        state, metrics = step(state, batch)
        totals.append([float(metrics[k]) for k in sorted(metrics)])
        if t == 3:
            leaves = {jax.tree_util.keystr(k): np.asarray(v) for k, v in jax.tree_util.tree_leaves_with_path(state)}
    assert state.carry.states["z_h"].sharding.spec == P("data"), state.carry.states["z_h"].sharding
    assert len(jax.devices()) == 1 or state.puzzle_table.sharding.spec == P(("data", "model"))
    rows = state.puzzle_table.addressable_shards[0].data.shape[0]
    assert rows == state.puzzle_table.shape[0] // len(jax.devices()), rows
    mesh_sizes = (len(jax.devices()), mesh.shape["data"])
    for tree in (state.params, state.ema, state.opt_state):
        for where, leaf in jax.tree_util.tree_leaves_with_path(tree):
            held = leaf.addressable_shards[0].data.size
            numbers = [n for n in mesh_sizes if shard_parameters and any(x % n == 0 for x in leaf.shape)]
            wanted = leaf.size // max(numbers, default=1)
            assert held == wanted, (where, leaf.shape, held)
    held = state.params["level"]["block_0"]["mlp"]["gate_up"]["kernel"].sharding
    assert held.is_fully_replicated != bool(shard_parameters and len(jax.devices()) > 1), held
    shard = state.carry.states["z_h"].addressable_shards[0].data.shape[0]
    assert shard == 16 // (len(jax.devices()) // model_parallel), shard
    np.savez(path, totals=np.array(totals), **leaves)
"""


def run(
    folder: Path, devices: int, meshes: list[tuple[int, int, int]], mixer: str
) -> list[dict[str, np.ndarray]]:
    """Return the state after four steps, and the metrics of 20.

    Args:
        folder: Folder to write to.
        devices: Number of devices.
        meshes: For each mesh: devices along the axis `model`, microbatches, and whether parameters are split.
        mixer: Mixer of the network.
    """
    environment = os.environ | {
        "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    }
    carried_out = [",".join(map(str, mesh)) for mesh in meshes]
    paths = [folder / f"{devices}-{mesh}.npz" for mesh in carried_out]
    each = [str(part) for pair in zip(carried_out, paths, strict=True) for part in pair]
    command = [sys.executable, "-c", SCRIPT, mixer, *each]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [dict(np.load(path)) for path in paths]


@pytest.mark.parametrize("mixer", ["mlp_t", pytest.param("attention", marks=pytest.mark.slow)])
def test_same_numbers_on_one_and_eight_devices(tmp_path: Path, mixer: str) -> None:
    (one,) = run(tmp_path, 1, [(1, 1, 0)], mixer)
    for many in run(tmp_path, 8, [(1, 1, 0), (2, 2, 0), (1, 1, 1), (4, 2, 1)], mixer):
        assert many.keys() == one.keys()
        totals, wanted = many.pop("totals"), one["totals"]
        difference = np.abs(totals - wanted) / np.maximum(np.abs(wanted), 1e-3)
        assert difference[0].max() <= FIRST_STEP, difference[0]
        assert difference.max() <= LATER_STEPS, difference.max(axis=0)
        for name in many:
            wanted = one[name]
            assert many[name].dtype == wanted.dtype, name
            if wanted.dtype == np.float32:
                beyond = np.abs(many[name] - wanted) > 1e-5 * max(1.0, np.abs(wanted).max())
                assert not beyond.any(), (name, np.abs(many[name] - wanted).max())
            else:
                assert np.array_equal(many[name], wanted), name


def test_a_mesh_that_does_not_divide_the_devices_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"execution\.model_parallel"):
        make_mesh(3)
