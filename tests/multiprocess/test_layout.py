"""Sharding of the state over processes, array by array, and the collectives of the compiled step."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.multiprocess.processes import ended, free_address

SCRIPT = """
import json, sys
import jax, numpy as np
from trm_train.hosts import join, place_of
hosts = join(place_of(sys.argv[1], 2, int(sys.argv[2])), 60.0, lambda text: None)
from trm_train.config.data import DataConfig
from trm_train.config.run import ExecutionConfig
from trm_train.config.run import *
from trm_train.mesh import data_part, make_greatest, make_mesh
from trm_train.state import init_state
from trm_train.step.compile import compile_train_step

config = RunConfig(
    data=DataConfig(dataset="x", global_batch_size=16),
    model=ModelConfig(hidden_size=16, num_heads=2, num_layers=1, h_cycles=2, l_cycles=2, halt_max_steps=3,
                      puzzle_emb_len=2, puzzle_emb_ndim=20, forward_dtype="float32"),
    execution=ExecutionConfig(model_parallel=int(sys.argv[3])), total_steps=9)
spec = InputSpec(sequence_length=9, vocabulary_size=6, num_identifiers=200)
mesh = make_mesh(config.execution.model_parallel)
step, _, _ = compile_train_step(config, spec, mesh)
_, state = init_state(config, spec, 16, mesh)
ask = make_greatest(mesh)
leaves = {
    jax.tree_util.keystr(path, simple=True, separator="."):
        [leaf.shape, leaf.addressable_shards[0].data.shape, leaf.is_fully_replicated, len(leaf.addressable_shards)]
    for path, leaf in jax.tree_util.tree_leaves_with_path(state)
}
print(json.dumps({"part": data_part(mesh), "leaves": leaves, "hlo": step.stages[-1][1].as_text(),
                  "greatest": int(ask(hosts.index * 7)),
                  "carry": list(state.carry.states["z_h"].shape), "table": list(state.puzzle_table.shape)}))
hosts.barrier("the end")
"""
COLLECTIVE = re.compile(
    r"= (.*?) (all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)(?:-start)?\("
)


def two(model_parallel: int) -> list[dict]:
    address = free_address()
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", SCRIPT, address, str(index), str(model_parallel)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"JAX_PLATFORMS": "cpu"},
        )
        for index in range(2)
    ]
    done = ended(processes)
    assert [one.returncode for one in done] == [0, 0], "\n".join(one.stderr[-3000:] for one in done)
    return [json.loads(one.stdout.splitlines()[-1]) for one in done]


@pytest.mark.slow
def test_each_process_holds_its_part_of_the_carry_and_no_step_gathers_it() -> None:
    both = two(1)
    assert [one["part"] for one in both] == [[0, 2], [1, 2]]
    for one in both:
        assert one["greatest"] == 7
        for name, (shape, local, replicated, shards) in one["leaves"].items():
            assert shards == 1, name
            if name.startswith("carry"):
                assert local == [shape[0] // 2, *shape[1:]], name
                assert not replicated, name
            elif name == "puzzle_table":
                assert local == [shape[0] // 2, shape[1]], name
            else:
                assert local == shape, name
                assert replicated, name
        sent = collectives(one["hlo"])
        assert sent, "no collective at all: this is not the step of two processes"
        whole = {",".join(map(str, one[what])) for what in ("carry", "table")}
        gathered = [shapes for kind, shapes in sent if kind == "all-gather" and whole & set(shapes)]
        assert gathered == []
        print(sorted({(kind, shape) for kind, shapes in sent for shape in shapes}))


@pytest.mark.slow
def test_processes_that_share_a_part_hold_half_of_the_table_each() -> None:
    """The axis `model` spans both processes: each loads all rows of a batch."""
    for one in two(2):
        assert one["part"] == [0, 1]
        shape, local, replicated, _ = one["leaves"]["puzzle_table"]
        assert local == [shape[0] // 2, shape[1]]
        assert not replicated
        gathered = [shapes for kind, shapes in collectives(one["hlo"]) if kind == "all-gather"]
        assert all(",".join(map(str, one["table"])) not in shapes for shapes in gathered), gathered
        print(sorted({(kind, shape) for kind, shapes in collectives(one["hlo"]) for shape in shapes}))


def collectives(hlo: str) -> list[tuple[str, list[str]]]:
    """Return the kind and result shapes of every collective of a compiled program."""
    return [(kind, re.findall(r"\[([0-9,]*)\]", result)) for result, kind in COLLECTIVE.findall(hlo)]
