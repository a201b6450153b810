"""Training step on this machine against plain matrix products of the same shapes, in one run.

    python benchmarks/bench_step.py [--mixer attention] [--hidden 512] [--batch 16] [--json PATH]

A 9x9 Sudoku (S 81, P 16, V 11), float32. Reports the time of a compiled step, compile time, examples/s, and
the step's rate of arithmetic beside that of plain jitted products. Targets: at least 80% of it, and less than
15 s to compile.

What is counted (`products`): the matrix products of the step exactly as executed, 2 m k n each.

    level       per layer the token mixing and the SwiGLU over the width
    forward     h_cycles * (l_cycles + 1) levels, all with their forward products
    backward    l_cycles + 1 levels (the last cycle): for each product one for its input, one for its weight
    lm_head     one forward, two backward

Norms, activations, embeddings, the halting head, losses and optimizers are executed and timed but not
counted, so they lower the figure.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from trm_train.config import DataConfig, InputSpec, ModelConfig, RunConfig
from trm_train.model.embedding import puzzle_positions
from trm_train.model.layers import inner_width
from trm_train.state import init_state
from trm_train.step import make_train_step

SPEC = InputSpec(sequence_length=81, vocabulary_size=11, num_identifiers=1)
MIN_RATIO = 0.8
MAX_COMPILE_S = 15.0

Product = tuple[int, int, int, int]
"""Copies, m, k, n: so many products [m, k] @ [k, n] at once."""


def forward_products(model: ModelConfig, batch: int) -> Counter[Product]:
    """Products of one forward pass of one level."""
    length, width = puzzle_positions(model) + SPEC.sequence_length, model.hidden_size
    rows, inner = batch * length, inner_width(width, model.expansion)
    layer = [(1, rows, width, 2 * inner), (1, rows, inner, width)]
    if model.mixer == "mlp_t":
        columns, inner = batch * width, inner_width(length, model.expansion)
        layer += [(1, 2 * inner, length, columns), (1, length, inner, columns)]
    else:
        heads, head = batch * model.num_heads, width // model.num_heads
        layer += [(1, rows, width, 3 * width), (1, rows, width, width)]
        layer += [(heads, length, head, length), (heads, length, length, head)]
    return Counter(layer * model.num_layers)


def backward_products(forward: Counter[Product]) -> Counter[Product]:
    """For y = a b: the gradient of a is dy b', that of b is a' dy."""
    products: Counter[Product] = Counter()
    for (copies, m, k, n), times in forward.items():
        products[copies, m, n, k] += times
        products[copies, k, m, n] += times
    return products


def step_products(model: ModelConfig, batch: int) -> Counter[Product]:
    """Every product of one training step."""
    level = forward_products(model, batch)
    head = Counter([(1, batch * SPEC.sequence_length, model.hidden_size, SPEC.vocabulary_size)])
    products: Counter[Product] = Counter()
    for part, times in (
        (level, model.h_cycles * (model.l_cycles + 1)),
        (backward_products(level), model.l_cycles + 1),
        (head + backward_products(head), 1),
    ):
        for product, count in part.items():
            products[product] += count * times
    return products


def flop(products: Counter[Product]) -> int:
    """Floating-point operations of these products."""
    return sum(2 * copies * m * k * n * times for (copies, m, k, n), times in products.items())


def time_calls(call: Callable[[], Any], repeats: int) -> list[float]:
    """Seconds of each call, the first (warm-up) left out."""
    jax.block_until_ready(call())
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(call())
        seconds.append(time.perf_counter() - start)
    return seconds


def time_products(products: Counter[Product], repeats: int, reduce: Callable[[list[float]], float]) -> float:
    """Seconds that these products take one by one, as plain jitted `a @ b`."""
    multiply = jax.jit(jnp.matmul)
    total_s = 0.0
    for (copies, m, k, n), times in products.items():
        key_a, key_b = jax.random.split(jax.random.key(0))
        lead = () if copies == 1 else (copies,)
        a = jax.random.normal(key_a, (*lead, m, k), jnp.float32)
        b = jax.random.normal(key_b, (*lead, k, n), jnp.float32)
        total_s += times * reduce(time_calls(lambda a=a, b=b: multiply(a, b), repeats))
    return total_s


def bench(mixer: str, hidden: int, batch: int, repeats: int) -> dict[str, Any]:
    """Every figure of one configuration."""
    positions = "none" if mixer == "mlp_t" else "rope"
    model = ModelConfig(hidden_size=hidden, mixer=mixer, pos_encodings=positions, forward_dtype="float32")
    data = DataConfig(dataset="benchmark", global_batch_size=batch)
    config = RunConfig(data=data, model=model, total_steps=1_000)
    definition, state = init_state(config, SPEC, batch)
    rng = np.random.default_rng(0)
    rows = {
        "inputs": rng.integers(1, 11, (batch, 81)).astype(np.uint8),
        "labels": rng.integers(2, 11, (batch, 81)).astype(np.uint8),
        "puzzle_identifiers": np.zeros(batch, np.int32),
    }
    start = time.perf_counter()
    lowered = jax.jit(make_train_step(config, SPEC, definition), donate_argnums=0).lower(state, rows)
    traced = time.perf_counter()
    step = lowered.compile()
    compiled = time.perf_counter()

    def call() -> Any:
        nonlocal state
        state, metrics = step(state, rows)
        return state, metrics

    products = step_products(model, batch)
    # Plain products before and after the step: on a machine that others load, the faster half counts.
    plain_s = [time_products(products, repeats, min)]
    step_s = time_calls(call, repeats)
    plain_s.append(time_products(products, repeats, min))
    total_flop = flop(products)
    return {
        "mixer": mixer,
        "hidden": hidden,
        "batch": batch,
        "step_s": {
            "best": min(step_s),
            "median": statistics.median(step_s),
            "worst": max(step_s),
            "repeats": repeats,
        },
        "trace_s": traced - start,
        "compile_s": compiled - traced,
        "examples_per_s": batch / min(step_s),
        "examples_per_s_median": batch / statistics.median(step_s),
        "step_gflop": total_flop / 1e9,
        "step_gflop_per_s": total_flop / min(step_s) / 1e9,
        "plain_gflop_per_s": total_flop / min(plain_s) / 1e9,
        "plain_s": plain_s,
        "ratio": min(plain_s) / min(step_s),
    }


def main() -> None:
    """Prints the figures; with --json also writes them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mixer", choices=("mlp_t", "attention"), default="mlp_t")
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    result = bench(arguments.mixer, arguments.hidden, arguments.batch, arguments.repeats)
    result["machine"] = {
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "device": jax.devices()[0].device_kind,
        "python": platform.python_version(),
        "jax": jax.__version__,
    }
    seconds = result["step_s"]
    print(f"training step, {result['mixer']}, hidden {result['hidden']}, batch {result['batch']}, float32")
    print(f"  step            best {seconds['best']:.3f} s, median {seconds['median']:.3f} s, ", end="")
    print(f"worst {seconds['worst']:.3f} s of {seconds['repeats']}")
    print(f"  compile         {result['compile_s']:.1f} s (target < {MAX_COMPILE_S:.0f}), ", end="")
    print(f"trace {result['trace_s']:.1f} s")
    print(f"  examples/s      {result['examples_per_s']:.2f} (median {result['examples_per_s_median']:.2f})")
    print(f"  arithmetic      {result['step_gflop']:.1f} GFLOP, {result['step_gflop_per_s']:.1f} GFLOP/s")
    print(f"  plain products  {result['plain_gflop_per_s']:.1f} GFLOP/s; ", end="")
    print(f"ratio {result['ratio']:.0%} (target >= {MIN_RATIO:.0%})")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
