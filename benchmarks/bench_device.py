"""Training and evaluation step on an accelerator, in bfloat16 at hidden 512, in one run.

    python benchmarks/bench_device.py [--batch 768 6144] [--mixer mlp_t attention] [--recipe trm_maze trm_arc1]
        [--forms] [--profile DIR] [--json PATH]

Reports, for each network and batch: compile time, microbatches (the fewest that fit), memory by the compiled program,
time a step, examples/s, arithmetic in TFLOP/s and its share of a plain bfloat16 matrix product measured in the same
run. `--forms` also measures the forms of `trm_train/model/networks.py` and compares the fused attention of the platform
with attention written out in float32. `--profile` traces three steps and sums the time of kernels by kind.

Operations are those of the network's matrix products (`trm_train/cost.py`). Rows are random: the time of a step does
not depend on them. On a CPU it runs with `--hidden 32 --batch 8 --dtype float32 --product 256`, as its test does.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.92")

import jax
import jax.numpy as jnp
import numpy as np
from report import Report

from trm_train.config.data import DataConfig
from trm_train.config.run import ExecutionConfig, InputSpec, ModelConfig, RunConfig
from trm_train.cost import cost_of
from trm_train.experiments.registry import find_experiment
from trm_train.mesh import batch_sharding, held_bytes, make_mesh
from trm_train.model import networks
from trm_train.model.attention import cudnn_attention, written_out_attention
from trm_train.state import eval_weights, init_state
from trm_train.step.compile import Given, compile_train_step
from trm_train.step.evaluate import make_eval_step

SUDOKU = InputSpec(sequence_length=81, vocabulary_size=11, num_identifiers=1)
RECIPE_SPECS = {
    "trm_sudoku_mlp": SUDOKU,
    "trm_maze": InputSpec(sequence_length=900, vocabulary_size=6, num_identifiers=1),
    "trm_arc1": InputSpec(sequence_length=900, vocabulary_size=12, num_identifiers=876_407),
}
"""Shapes of the published datasets."""
STEPS = 5
"""Steps between two readings of the clock."""
CHANGES: dict[str, dict[str, Any]] = {
    "one product": {"two_products": False},
    "one product, written derivative": {"two_products": False, "written_derivative": True},
    "[B, L, D]": {"positions_axis": 1},
    "embedding by scatter": {"scatters": True},
}
"""What `--forms` changes of the platform's form, one line each, for mlp_t."""
KINDS = (
    ("matrix products", r"gemm|cutlass|nvjet|cublas|dot|xmma"),
    ("fused attention", r"fmha|flash|sdpa|cudnn"),
    ("copies", r"memcpy|memset|copy|transpose"),
    ("other fusions", r""),
)
"""Kinds of kernels by their names, the first that matches."""


@dataclass(frozen=True)
class Case:
    """A network and a batch to measure."""

    name: str
    config: RunConfig
    spec: InputSpec
    steps: int = STEPS
    limit_bytes: int | None = None


def synthetic(mixer: str, hidden: int, batch: int, dtype: str) -> Case:
    """A 9x9 Sudoku network of the published depth."""
    positions = "none" if mixer == "mlp_t" else "rope"
    kind: Any = dtype
    model = ModelConfig(hidden_size=hidden, mixer=mixer, pos_encodings=positions, forward_dtype=kind)
    data = DataConfig(dataset="benchmark", global_batch_size=batch)
    execution = ExecutionConfig(micro_batches="auto")
    config = RunConfig(data=data, model=model, total_steps=5_000, execution=execution)
    return Case(f"{mixer}, hidden {hidden}, batch {batch}", config, SUDOKU)


def recipe(name: str) -> Case:
    """A published recipe with its batch."""
    item = find_experiment(name)
    config = item.configure(item.settings[0])
    config = replace(config, execution=replace(config.execution, micro_batches="auto"))
    return Case(f"{name}, batch {config.data.global_batch_size}", config, RECIPE_SPECS[name], steps=1)


def random_batch(case: Case, mesh: Any) -> dict[str, jax.Array]:
    """Rows of random tokens, over the mesh."""
    rng, rows = np.random.default_rng(0), case.config.data.global_batch_size
    cells = (rows, case.spec.sequence_length)
    batch = {
        "inputs": rng.integers(1, case.spec.vocabulary_size, cells).astype(np.uint8),
        "labels": rng.integers(1, case.spec.vocabulary_size, cells).astype(np.uint8),
        "puzzle_identifiers": rng.integers(0, case.spec.num_identifiers, rows).astype(np.int32),
    }
    return jax.device_put(batch, batch_sharding(mesh))


def seconds_of(call: Callable[[], Any]) -> float:
    """Wall-clock time of a call, results included."""
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def product_rate(size: int, repeats: int) -> float:
    """FLOP/s of a plain bfloat16 product of square matrices, the median of several."""
    a, b = (jax.random.normal(jax.random.key(i), (size, size), jnp.bfloat16) for i in range(2))
    multiply = jax.jit(lambda a, b: a @ b)

    def several() -> Any:
        c = a
        for _ in range(STEPS):
            c = multiply(c, b)
        return c

    several()
    return STEPS * 2 * size**3 / float(np.median([seconds_of(several) for _ in range(repeats)]))


def measure_training(
    report: Report,
    case: Case,
    peak: float,
    repeats: int,
    profile: Path | None = None,
    *,
    evaluate: bool = False,
) -> None:
    """Compile and time the training step of a case, and the evaluation step if asked for."""
    mesh = make_mesh()
    compiled, _, _ = compile_train_step(case.config, case.spec, mesh, limit_bytes=case.limit_bytes)
    definition, state = init_state(case.config, case.spec, case.config.data.global_batch_size, mesh)
    program, given = compiled.stages[-1][1], Given(random_batch(case, mesh))

    def steps() -> Any:
        nonlocal state
        metrics: Any = None
        for _ in range(case.steps):
            state, metrics = program(state, given)
        return metrics

    for _ in range(2):
        jax.block_until_ready(steps())
    seconds = [seconds_of(steps) / case.steps for _ in range(repeats)]
    batch, cost = case.config.data.global_batch_size, cost_of(case.config, case.spec)
    assert cost is not None
    report.add(f"train: {case.name}", [1e3 * s for s in seconds], unit="ms a step", n=batch)
    report.add(f"train: {case.name}", [batch / s for s in seconds], unit="examples/s", n=batch)
    rates = [batch * cost.example_flops / s for s in seconds]
    report.add(f"train: {case.name}", [rate / 1e12 for rate in rates], unit="TFLOP/s", n=batch)
    report.add(f"train: {case.name}", [rate / peak for rate in rates], unit="share of product", n=batch)
    report.add(f"compile: {case.name}", [compiled.seconds], unit="s", n=1)
    held, needed = held_bytes(), (compiled.peak_bytes or 0) / 1e9
    report.note(
        f"{case.name}: microbatches {compiled.micro_batches}, compiled memory {needed:.2f} GB, "
        f"most held since the start {'unknown' if held is None else f'{held / 1e9:.2f} GB'}"
    )
    if profile is not None:
        report_profile(report, case, steps, profile)
    print(
        f"{case.name}: {1e3 * min(seconds):.1f} ms a step, {max(rates) / peak:.1%}",
        file=sys.stderr,
        flush=True,
    )
    if evaluate:
        measure_evaluation(report, case, definition, state, peak, repeats)


def measure_evaluation(
    report: Report, case: Case, definition: Any, state: Any, peak: float, repeats: int
) -> None:
    """Time the evaluation of a batch: all supervision steps."""
    mesh, weights = make_mesh(), eval_weights(state)
    evaluate = jax.jit(make_eval_step(case.config, case.spec, definition, mesh=mesh))
    batch = random_batch(case, mesh)
    jax.block_until_ready(evaluate(weights, batch))
    seconds = [seconds_of(lambda: evaluate(weights, batch)) for _ in range(repeats)]
    rows, cost = case.config.data.global_batch_size, cost_of(case.config, case.spec)
    assert cost is not None
    report.add(f"evaluate: {case.name}", [rows / s for s in seconds], unit="examples/s", n=rows)
    shares = [rows * cost.evaluation_flops / s / peak for s in seconds]
    report.add(f"evaluate: {case.name}", shares, unit="share of product", n=rows)


def report_profile(report: Report, case: Case, steps: Callable[[], Any], folder: Path) -> None:
    """Trace steps; sum the time of the device's kernels by kind and name."""
    with jax.profiler.trace(str(folder)):
        jax.block_until_ready(steps())
    file = max(folder.rglob("*.xplane.pb"), key=lambda path: path.stat().st_mtime)
    names: Counter[str] = Counter()
    for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
        if not plane.name.startswith("/device:"):
            continue
        for line in plane.lines:
            if line.name.startswith("Stream"):
                for event in line.events:
                    names[event.name] += int(event.duration_ns)
    if not names:
        report.note("profile: the trace has no kernels of a device")
    total, kinds = sum(names.values()), Counter[str]()
    for name, spent in names.items():
        kinds[next(kind for kind, pattern in KINDS if re.search(pattern, name, re.IGNORECASE))] += spent
    for kind, spent in kinds.most_common():
        report.note(
            f"profile of {case.name}: {kind} {spent / total:.1%}, {spent / 1e6 / case.steps:.2f} ms a step"
        )
    for name, spent in names.most_common(10):
        report.note(f"  {spent / total:.1%} {name[:100]}")


def measure_forms(report: Report, hidden: int, batch: int, dtype: str, peak: float, repeats: int) -> None:
    """The training step of mlp_t in each form, and of attention written out and fused."""
    name = networks.platform_of(None)
    own = networks.KERNELS[name]
    try:
        for label, change in CHANGES.items():
            networks.KERNELS[name] = replace(own, **change)
            case = synthetic("mlp_t", hidden, batch, dtype)
            measure_training(report, replace(case, name=f"{label}: {case.name}"), peak, repeats)
        networks.KERNELS[name] = replace(own, attention="plain")
        case = synthetic("attention", hidden, batch, dtype)
        measure_training(report, replace(case, name=f"written out: {case.name}"), peak, repeats)
    finally:
        networks.KERNELS[name] = own


def compare_attention(report: Report, length: int) -> None:
    """Relative errors of bfloat16 attention, written out and fused, against float32: results and gradients."""
    keys = jax.random.split(jax.random.key(0), 4)
    q, k, v, dy = (jax.random.normal(key, (8, length, 8, 64), jnp.float32) for key in keys)

    def with_gradients(attend: Callable[..., Any], dtype: Any) -> list[Any]:
        y, pull = jax.vjp(attend, *(x.astype(dtype) for x in (q, k, v)))
        return [x.astype(jnp.float32) for x in (y, *pull(dy.astype(y.dtype)))]

    wanted = with_gradients(written_out_attention, jnp.float32)
    for label, attend in (("written out", written_out_attention), ("cudnn", cudnn_attention)):
        found = with_gradients(attend, jnp.bfloat16)
        errors = [
            float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b)) for a, b in zip(found, wanted, strict=True)
        ]
        shown = ", ".join(
            f"{name} {error:.2e}" for name, error in zip(("y", "dq", "dk", "dv"), errors, strict=True)
        )
        report.note(f"attention over {length} positions, {label} in bfloat16, relative error: {shown}")


def main() -> None:
    """Measure, print the report; with --json also write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mixer", nargs="*", choices=("mlp_t", "attention"), default=["mlp_t", "attention"])
    parser.add_argument("--batch", nargs="*", type=int, default=[768, 6144])
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--recipe", nargs="*", choices=tuple(RECIPE_SPECS), default=[])
    parser.add_argument("--forms", action="store_true", help="also compare the forms of a network")
    parser.add_argument("--product", type=int, default=8192, help="width of the plain matrix product")
    parser.add_argument(
        "--memory-gb", type=float, help="limit for microbatches; default: what the device says"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--profile", type=Path, help="folder for a trace of some steps of the first case")
    parser.add_argument("--json", type=Path, help="where to write the report")
    options = parser.parse_args()
    device = jax.devices()[0]
    report = Report(f"steps on {device.device_kind}, {options.dtype}", ("jax", "jaxlib", "flax", "numpy"))
    peak = product_rate(options.product, options.repeats)
    report.add(f"peer: plain product, {options.product} wide", [peak / 1e12], unit="TFLOP/s", n=1)
    cases = [
        synthetic(mixer, options.hidden, size, options.dtype)
        for mixer in options.mixer
        for size in options.batch
    ]
    cases += [recipe(name) for name in options.recipe]
    if options.memory_gb:
        cases = [replace(case, limit_bytes=int(options.memory_gb * 1e9)) for case in cases]
    if options.forms:
        if device.platform == "gpu":
            compare_attention(report, 97)
            compare_attention(report, 916)
        measure_forms(report, options.hidden, options.batch[0], options.dtype, peak, options.repeats)
    for case in cases:
        trace = options.profile if case is cases[0] else None
        measure_training(report, case, peak, options.repeats, trace, evaluate=case.steps > 1)
        if options.json:
            report.write_json(options.json)
    report.print()


if __name__ == "__main__":
    main()
