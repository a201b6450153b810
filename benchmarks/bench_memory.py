"""Memory of the compiled training step, kept states against states that are computed again (contrib03).

    python benchmarks/bench_memory.py [--hidden 128] [--batch 32] [--steps 3] [--dtype bfloat16] [--json PATH]

A 9x9 Sudoku, mlp_t, 2 layers, H 3; L 6, 12 and 24, each with states kept and with
`--execution.rematerialise`, and L 6 in 4 micro-batches. Reports the temporaries of the compiled step on one device, as
its compiler says, and examples/s. Target: L 24 computed again within 1.3 times of L 6 kept.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from report import Report

from trm_train.config.data import DataConfig
from trm_train.config.run import ExecutionConfig, InputSpec, ModelConfig, RunConfig
from trm_train.mesh import batch_sharding, make_mesh, put_batch
from trm_train.state import init_state
from trm_train.step.compile import Given, compile_train_step

SPEC = InputSpec(sequence_length=81, vocabulary_size=11, num_identifiers=1)
MAX_RATIO = 1.3
CASES = [(cycles, again, 1) for cycles in (6, 12, 24) for again in (False, True)] + [(6, False, 4)]


def measured(
    arguments: argparse.Namespace, cycles: int, *, again: bool, pieces: int
) -> tuple[int, list[float]]:
    """Temporaries of a step (B), and its examples/s."""
    config = RunConfig(
        data=DataConfig(dataset="made-up", global_batch_size=arguments.batch),
        model=ModelConfig(hidden_size=arguments.hidden, l_cycles=cycles, forward_dtype=arguments.dtype),
        total_steps=3000,
        execution=ExecutionConfig(rematerialise=again, micro_batches=pieces),
    )
    mesh = make_mesh()
    step, _, _ = compile_train_step(config, SPEC, mesh)
    _, state = init_state(config, SPEC, config.data.global_batch_size, mesh)
    assert step.memory_bytes is not None, "the backend does not say what a program needs"
    rng = np.random.default_rng(0)
    rows = {
        "inputs": rng.integers(1, 11, (arguments.batch, 81)).astype(np.uint8),
        "labels": rng.integers(2, 11, (arguments.batch, 81)).astype(np.uint8),
        "puzzle_identifiers": np.zeros(arguments.batch, np.int32),
    }
    given = Given(put_batch(rows, batch_sharding(mesh)))
    rates: list[float] = []
    metrics: Any = None
    for number in range(arguments.steps + 1):
        begun = time.perf_counter()
        state, metrics = step.at(1)(state, given)
        jax.block_until_ready(metrics)
        if number:
            rates.append(arguments.batch / (time.perf_counter() - begun))
    return step.memory_bytes["temporaries"], rates


def main() -> None:
    """Measure, print the report; with --json also write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    title = f"memory of the training step, mlp_t, hidden {arguments.hidden}, batch {arguments.batch}, {arguments.dtype}"
    report = Report(title, packages=("jax", "jaxlib", "flax", "numpy"))
    held: dict[tuple[int, bool, int], int] = {}
    for cycles, again, pieces in CASES:
        held[cycles, again, pieces], rates = measured(arguments, cycles, again=again, pieces=pieces)
        name = f"L {cycles}, {'computed again' if again else 'kept'}"
        name += f", {pieces} micro-batches" if pieces > 1 else ""
        report.add(name, [held[cycles, again, pieces] / 1e6], unit="MB", n=arguments.batch)
        report.add(name, rates, unit="examples/s", n=arguments.batch)
    ratio = held[24, True, 1] / held[6, False, 1]
    report.add("L 24 computed again / L 6 kept", [ratio], unit="times", n=arguments.batch)
    report.note(f"{'reached' if ratio <= MAX_RATIO else 'MISSED'}: at most {MAX_RATIO} times")
    report.print()
    if arguments.json:
        report.write_json(arguments.json)


if __name__ == "__main__":
    main()
