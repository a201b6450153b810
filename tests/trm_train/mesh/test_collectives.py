"""Collectives of the compiled step are those listed in docs/buckets-and-hosts.md; none grows with the table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from trm_train.mesh import Collective, collectives, exchanges

BATCH, WIDTH, TABLE = 64, 50, 2048
SCRIPT = """
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


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "1,1,0,1", "2,1,0,1", "1,2,1,1", "2,1,1,1", "2,1,0,5", "1,1,1,5"],
        env=os.environ | {"XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("mesh", ["1,1,0,1", "2,1,0,1", "1,2,1,1", "2,1,1,1", "2,1,0,5", "1,1,1,5"])
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
