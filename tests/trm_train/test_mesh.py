"""Eight devices give the same numbers as one, on any mesh; shardings are those of the table.

A table sharded by rows over eight devices is read and updated like a table on one device.
Collectives of the compiled step are those listed in docs/buckets-and-hosts.md; none grows with the table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trm_train.errors import ConfigError
from trm_train.mesh import Collective, collectives, exchanges, make_mesh

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


TABLE_SCRIPT = """
import jax, jax.numpy as jnp, numpy as np
from functools import partial
from jax.sharding import NamedSharding
from trm_train.mesh import batch_sharding, make_mesh
from trm_train.mesh import look_up, rows_spec, update_rows
from trm_train.optim import sign_sgd

rng = np.random.default_rng(0)
update = partial(sign_sgd, learning_rate=jnp.float32(0.1), weight_decay=0.5)
seen = set()
for model_parallel in (1, 2, 4, 8):
    mesh = make_mesh(model_parallel)
    for rows in (8, 128, 12, 6, 3):
        for trial in range(3):
            table = rng.normal(size=(rows, 5)).astype(np.float32)
            identifiers = rng.integers(0, 2 if trial == 0 else rows, 16).astype(np.int32)
            identifiers[-1] = rows - 1
            grads = rng.normal(size=(16, 5)).astype(np.float32)
            grads[0] = 0
            spec = rows_spec(mesh, rows)
            seen.add(str(spec))
            there = jax.device_put(table, NamedSharding(mesh, spec))
            slots = [jax.device_put(x, batch_sharding(mesh)) for x in (grads, identifiers)]
            found = jax.jit(partial(look_up, mesh=mesh))(there, slots[1])
            assert found.sharding.is_equivalent_to(batch_sharding(mesh), 2), found.sharding
            assert np.array_equal(found, table[identifiers]), (model_parallel, rows)
            changed = jax.jit(partial(update_rows, update, mesh=mesh))(there, *slots)
            assert changed.sharding.is_equivalent_to(there.sharding, 2), changed.sharding
            wanted = sign_sgd(*map(jnp.asarray, (table, grads, identifiers)), jnp.float32(0.1), 0.5)
            assert np.allclose(changed, wanted, atol=1e-6), (model_parallel, rows)
            untouched = np.setdiff1d(np.arange(rows), identifiers)
            assert np.array_equal(np.asarray(changed)[untouched], table[untouched])
assert len(seen) == 3, seen
assert look_up(None, slots[1], mesh) is None
"""


def test_rows_over_devices_are_those_of_one_device() -> None:
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-c", TABLE_SCRIPT],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_NUMPY_RANK_PROMOTION": "raise"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


BATCH, WIDTH, TABLE = 64, 50, 2048
COMPILED_SCRIPT = """
import json, sys
import jax
from trm_train.config.data import DataConfig
from trm_train.config.run import ExecutionConfig
from trm_train.config.run import *
from trm_train.mesh import collectives
from trm_train.mesh import make_mesh
from trm_train.step.compile import compile_train_step

model = ModelConfig(hidden_size=32, num_heads=2, num_layers=1, h_cycles=2, l_cycles=2, halt_max_steps=3,
                    puzzle_emb_len=2, puzzle_emb_ndim=50, forward_dtype="float32")
spec = InputSpec(sequence_length=9, vocabulary_size=6, num_identifiers=2000)
found = {}
for line in sys.argv[1:]:
    model_parallel, micro_batches, split, steps = map(int, line.split(","))
    execution = ExecutionConfig(model_parallel=model_parallel, micro_batches=micro_batches,
                                shard_parameters=bool(split), steps_per_dispatch=steps, device_rows=steps > 1)
    config = RunConfig(data=DataConfig(dataset="x", global_batch_size=64), model=model, execution=execution,
                       total_steps=9)
    step, state, _ = compile_train_step(config, spec, make_mesh(model_parallel), num_rows=5000)
    sent = collectives(step.stages[-1][1].as_text())
    found[line] = {
        "sent": [[one.kind, one.dtype, list(one.shape)] for one in sent],
        "params": [list(leaf.shape) for leaf in jax.tree.leaves(state.params)],
        "carry": [list(leaf.shape) for leaf in jax.tree.leaves(state.carry)],
        "table": list(state.puzzle_table.shape),
        "memory": step.memory_bytes,
    }
print(json.dumps(found))
"""


COMPILED = str.split("1,1,0,1 2,1,0,1 1,2,1,1 2,1,1,1 2,1,0,5 1,1,1,5")
"""Model-parallel devices, microbatches, whether parameters are split, and steps of a dispatch."""


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-c", COMPILED_SCRIPT, *COMPILED],
        env=os.environ | {"XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("mesh", COMPILED)
def test_nothing_is_sent_but_what_is_listed(compiled: dict[str, Any], mesh: str) -> None:
    one = compiled[mesh]
    model_parallel, _, split, _ = map(int, mesh.split(","))
    data = 8 // model_parallel
    params = [tuple(shape) for shape in one["params"]]
    rows = {
        ("all-gather", "s32", (BATCH,)),
        ("all-gather", "f32", (BATCH, WIDTH)),
    }  # identifiers; gradients of slots
    rows |= {("reduce-scatter", "f32", (BATCH // data, WIDTH)), ("all-reduce", "f32", (BATCH // data, WIDTH))}
    weights = {("all-gather" if split else "all-reduce", "f32", shape) for shape in params}
    for shape in params if split else []:
        parts = [
            (*shape[:i], shape[i] // data, *shape[i + 1 :]) for i in range(len(shape)) if shape[i] % data == 0
        ]
        weights |= {("reduce-scatter", "f32", part) for part in parts}
    left = [
        (kind, dtype, tuple(shape))
        for kind, dtype, shape in one["sent"]
        if (kind, dtype, tuple(shape)) not in rows | weights
    ]
    # Single numbers: sums for metrics and norms.
    assert all(
        kind == "all-reduce" and len(shape) <= 1 and max(shape, default=1) <= 4 for kind, _, shape in left
    ), left
    sent = [tuple(shape) for kind, _, shape in one["sent"] if kind == "all-gather"]
    assert tuple(one["table"]) == (TABLE, WIDTH)
    assert tuple(one["table"]) not in sent
    assert not {tuple(shape) for shape in one["carry"] if len(shape) > 1} & set(sent)
    # Each gradient is summed once over devices, for any number of cycles and microbatches.
    sums = [
        tuple(shape)
        for kind, _, shape in one["sent"]
        if kind in ("all-reduce", "reduce-scatter") and len(shape) > 1
    ]
    assert len(sums) <= len(params) + 2


def test_split_parameters_take_less_memory(compiled: dict[str, Any]) -> None:
    assert compiled["1,2,1,1"]["memory"]["arguments"] < 0.3 * compiled["1,1,0,1"]["memory"]["arguments"]


PROGRAM = """
  %a = f32[32,512]{1,0} all-reduce(%x), channel_id=1
  %b = (s32[64]{0}, s32[64]{0}) all-gather-start(%y), channel_id=2
  %c = (bf16[8,4]{1,0}, f32[]) all-reduce(%z, %w), channel_id=3
  %d = f32[2,2]{1,0} add(%e, %f)
  %g = f32[32,512]{1,0} all-reduce(%h), channel_id=4
"""


def test_a_program_is_read() -> None:
    assert Collective("all-reduce", "bf16", (8, 4)) in collectives(PROGRAM)
    assert Collective("all-reduce", "f32", ()).bytes == 4
    assert Collective("all-reduce", "bf16", (8, 4)).bytes == 64
    assert Collective("all-gather", "pred", (3,)).bytes == 3
    assert Collective("all-gather", "f8e4m3fn", (3,)).bytes == 3
    first = exchanges(PROGRAM)[0]
    assert (first.kind, first.array, first.count, first.bytes) == ("all-reduce", "f32[32,512]", 2, 131072)
