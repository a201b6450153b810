"""Training step on this machine against plain matrix products of the same shapes, in one run.

    python benchmarks/bench_step.py [--mixer attention] [--hidden 512] [--batch 16] [--json PATH]
    python benchmarks/bench_step.py --peer DIR --peer-python ENV/bin/python

With --peer, a checkout of the published code (SamsungSAILMontreal/TinyRecursiveModels) takes steps of the same shapes
by turns with ours, compiled with torch in an environment of its own (`benchmarks/peer_step.py`).

A 9x9 Sudoku (S 81, P 16, V 11), float32, in as many microbatches as `trm-train run` takes on a CPU. Reports the time
of a compiled step, compile time, examples/s, and the step's rate of arithmetic beside that of plain jitted products of
the whole batch. Targets: at least 80% of it, and less than 15 s to compile.

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
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from report import Report

from trm_train.config.data import DataConfig
from trm_train.config.model import inner_width
from trm_train.config.run import ExecutionConfig, InputSpec, ModelConfig, RunConfig
from trm_train.state import init_state
from trm_train.step.compile import cached_pieces
from trm_train.step.train import make_train_step

SPEC = InputSpec(sequence_length=81, vocabulary_size=11, num_identifiers=1)
MIN_RATIO = 0.8
MAX_COMPILE_S = 15.0
PRODUCT_CALLS = 4

Product = tuple[int, int, int, int]
"""Copies, m, k, n: this many products [m, k] @ [k, n] at once."""


def forward_products(model: ModelConfig, batch: int) -> Counter[Product]:
    """Products of one forward pass of one level."""
    length, width = model.puzzle_positions + SPEC.sequence_length, model.hidden_size
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


def make_products(products: Counter[Product]) -> list[tuple[int, Callable[[], Any]]]:
    """Each product as a plain jitted `a @ b` on random operands, compiled, with how often the step does it."""
    multiply = jax.jit(jnp.matmul)
    calls: list[tuple[int, Callable[[], Any]]] = []
    for (copies, m, k, n), times in products.items():
        key_a, key_b = jax.random.split(jax.random.key(0))
        lead = () if copies == 1 else (copies,)
        a = jax.random.normal(key_a, (*lead, m, k), jnp.float32)
        b = jax.random.normal(key_b, (*lead, k, n), jnp.float32)
        jax.block_until_ready(multiply(a, b))
        calls.append((times, lambda a=a, b=b: multiply(a, b)))
    return calls


def seconds_of(call: Callable[[], Any]) -> float:
    """Wall-clock time of one call, results included."""
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def warm_seconds_of(call: Callable[[], Any]) -> float:
    """The fastest of a few calls in a row: a product at its best, as the step does it over and over."""
    return min(seconds_of(call) for _ in range(PRODUCT_CALLS))


class Peer:
    """The published step in a process of its own, which waits until it is asked for a step."""

    def __init__(self, python: str, checkout: Path, mixer: str, hidden: int, batch: int) -> None:
        shape = ["--mixer", mixer, "--hidden", str(hidden), "--batch", str(batch)]
        script = str(Path(__file__).with_name("peer_step.py"))
        self._process = subprocess.Popen(
            [python, script, str(checkout.resolve()), *shape],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def step_s(self) -> float:
        """Wall-clock time of one step."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(
                f"peer_step.py ended with exit code {self._process.wait()}; its message is above"
            )
        return float(answer)


def measure(report: Report, mixer: str, hidden: int, batch: int, repeats: int, peer: Peer | None) -> None:
    """Every figure of one configuration. Products, step and peer are timed in turn, so all see the same machine."""
    positions = "none" if mixer == "mlp_t" else "rope"
    model = ModelConfig(hidden_size=hidden, mixer=mixer, pos_encodings=positions, forward_dtype="float32")
    data = DataConfig(dataset="benchmark", global_batch_size=batch)
    pieces = cached_pieces(batch, model.puzzle_positions + SPEC.sequence_length)
    config = RunConfig(
        data=data, model=model, total_steps=5_000, execution=ExecutionConfig(micro_batches=pieces)
    )
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
    compile_s = time.perf_counter() - traced

    def call() -> Any:
        nonlocal state
        state, metrics = step(state, rows)
        return state, metrics

    products = step_products(model, batch)
    plain = make_products(products)
    jax.block_until_ready(call())
    peer_compile_s = [peer.step_s()] if peer else []
    plain_s: list[float] = []
    step_s: list[float] = []
    peer_s: list[float] = []
    for _ in range(repeats):
        plain_s.append(sum(times * warm_seconds_of(product) for times, product in plain))
        step_s.append(warm_seconds_of(call))
        if peer:
            peer_s.append(min(peer.step_s() for _ in range(PRODUCT_CALLS)))
    work = flop(products) / 1e9
    report.add("training step", [batch / s for s in step_s], unit="examples/s", n=batch)
    report.add("training step", [work / s for s in step_s], unit="GFLOP/s", n=batch)
    report.add("peer: plain matmul, same shapes", [work / s for s in plain_s], unit="GFLOP/s", n=batch)
    ratios = [p / s for p, s in zip(plain_s, step_s, strict=True)]
    report.add("step / plain matmul", ratios, unit="share", n=batch, at_least=MIN_RATIO)
    if peer:
        report.add(
            "peer: published code, torch.compile", [batch / s for s in peer_s], unit="examples/s", n=batch
        )
        faster = [p / s for p, s in zip(peer_s, step_s, strict=True)]
        report.add("step / published code", faster, unit="times as fast", n=batch)
        report.add("peer: first step, with its compilation", peer_compile_s, unit="s", n=1)
    report.add("trace", [traced - start], unit="s", n=1)
    report.add("compile", [compile_s], unit="s", n=1)
    report.note(f"compile time {compile_s:.1f} s, target under {MAX_COMPILE_S:.0f} s")
    report.note(f"{work:,.1f} GFLOP a step, {work / batch:.1f} an example, matrix products alone")


def main() -> None:
    """Measure, print the report; with --json also write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mixer", choices=("mlp_t", "attention"), default="mlp_t")
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path, help="where to write the report")
    parser.add_argument("--peer", type=Path, metavar="DIR", help="a checkout of the published code")
    parser.add_argument(
        "--peer-python", default=sys.executable, help="a Python with torch, pydantic and einops"
    )
    arguments = parser.parse_args()
    title = f"training step, {arguments.mixer}, hidden {arguments.hidden}, batch {arguments.batch}, float32"
    report = Report(title, ("jax", "jaxlib", "flax", "numpy"))
    shape = (arguments.mixer, arguments.hidden, arguments.batch)
    peer = Peer(arguments.peer_python, arguments.peer, *shape) if arguments.peer else None
    measure(report, *shape, arguments.repeats, peer)
    report.print()
    if arguments.json:
        report.write_json(arguments.json)


if __name__ == "__main__":
    main()
