"""What the host costs a run: overhead a step, waiting for batches, start-up, saving; one process and two.

    python benchmarks/bench_hosts.py [--steps 6000] [--rate 100000] [--json PATH]

A run's own loop with its loader, metrics, logs and console, of which only the compiled step is taken out where the host
alone is timed: it is replaced by a function that returns its input at once (overhead), or after as long as a
device takes that works at `--rate` examples/s (waiting). Overhead is that of a model so small that its steps take no
time. Then whole commands: `trm-train run` by one process and by two on this machine, with the same global batch.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
from report import Report

from trm_data.loader.dataset import open_dataset
from trm_data.storage.root import Layout, resolve_root
from trm_train.config.overrides import parse_config
from trm_train.console import RunConsole
from trm_train.experiments.registry import find_experiment
from trm_train.hosts import Hosts
from trm_train.metrics import read_metrics
from trm_train.runs.record import list_runs
from trm_train.runs.resume import meta_at
from trm_train.step.compile import Given
from trm_train.training.loop import _run_steps  # pyright: ignore[reportPrivateUsage]
from trm_train.training.start import Started, start_run
from trm_train.training.stop import StopRequest

DATASET = "sudoku-2x3-generated-500-aug-1000"
TINY = (
    "--model.hidden-size",
    "16",
    "--model.num-heads",
    "2",
    "--model.num-layers",
    "1",
    "--model.h-cycles",
    "1",
    "--model.l-cycles",
    "1",
    "--optim.lr-warmup-steps",
    "2",
)
QUIET = ("--execution.validate-every", "0", "--execution.checkpoint-every", "1000000")
WAYS = {
    "a step a dispatch": (),
    "50 steps a dispatch": ("--execution.steps-per-dispatch", "50"),
    "50 steps a dispatch, rows on the device": (
        *("--execution.steps-per-dispatch", "50"),
        "--execution.device-rows",
    ),
}
MOST_OVERHEAD_MS = 0.2
MOST_WAIT = 0.01
TRAIN = "import sys; from trm_train.cli import main; main(sys.argv[1:])"


@contextmanager
def started(layout: Layout, options: Sequence[str]) -> Generator[Started, None, None]:
    """A run of quickstart that is about to take its first step."""
    item = find_experiment("quickstart")
    config = parse_config(item.make(), [*QUIET, *options])
    with ExitStack() as stack:
        console = stack.enter_context(RunConsole(config, quiet=True))
        yield start_run(
            stack,
            item,
            config,
            layout,
            console,
            resume=False,
            tracking="none",
            extend=None,
            label="",
            hosts=Hosts(),
        )


class Stub:
    """A step that gives its state back, after some seconds for each step."""

    def __init__(self, run: Started, step_s: float) -> None:
        self.stages = run.step.stages
        count, given = run.feed.next()
        state, self._metrics = run.step.at(1)(run.state, given)
        jax.block_until_ready(self._metrics)
        self.first = replace(run, state=state, start=count)
        self._step_s, self._count = step_s, count

    def at(self, step: int) -> Callable[[Any, Given], Any]:
        """Stands in for a compiled step."""
        return self._take

    def _take(self, state: Any, given: Given) -> Any:
        if self._step_s:
            time.sleep(self._step_s * self._count)
        return state, self._metrics


def without_step(
    layout: Layout, options: Sequence[str], steps: int, step_s: float = 0.0
) -> tuple[float, float]:
    """Seconds a step of a run's loop, and the share of them spent waiting for batches; the step is a stub."""
    with started(layout, [*TINY, *options, "--total-steps", str(steps)]) as run:
        stub: Any = Stub(run, step_s)
        run = replace(stub.first, step=stub)
        begun = time.perf_counter()
        _run_steps(run, StopRequest())
        seconds = (time.perf_counter() - begun) / (steps - run.start)
        folder = run.folder
    rows = [row for row in read_metrics(folder).to_pylist() if row["step"] > run.start]
    waited = sum(row["data_wait_s"] for row in rows) / sum(row["step_s"] for row in rows)
    return seconds, waited


def with_step(layout: Layout, options: Sequence[str], steps: int) -> float:
    """Seconds a step of the loop with the tiny model's own step."""
    with started(layout, [*TINY, *options, "--total-steps", str(steps)]) as run:
        begun = time.perf_counter()
        _run_steps(run, StopRequest())
        return (time.perf_counter() - begun) / steps


def saving(layout: Layout, report: Report, repeats: int) -> None:
    """How long a checkpoint keeps the steps waiting, takes to be written, and to be read back."""
    with started(layout, ["--model.hidden-size", "256", "--data.global-batch-size", "64"]) as run:
        kept: list[float] = []
        written: list[float] = []
        read: list[float] = []
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(run.state) if hasattr(leaf, "nbytes"))
        for step in range(1, repeats + 1):
            meta = meta_at(run.record, step)
            state = replace(run.state, step=jax.numpy.full_like(run.state.step, step))
            jax.block_until_ready(state.step)
            begun = time.perf_counter()
            run.checkpoints.save(state, meta)
            kept.append(time.perf_counter() - begun)
            run.checkpoints.wait()
            written.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            found = run.checkpoints.restore(run.state)
            assert found is not None
            jax.block_until_ready(found.state.step)
            read.append(time.perf_counter() - begun)
    millions = round(size / 1e6)
    for name, values in (
        ("save, steps wait", kept),
        ("save, until it is written", written),
        ("restore", read),
    ):
        report.add(f"{name}, {millions} MB", values, unit="s", n=1)


def free_address() -> str:
    """A port of this machine that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def command(root: Path, processes: int, steps: int) -> tuple[float, float]:
    """Seconds until the first step of a whole command, and its examples/s, by a number of processes."""
    options = ["run", "quickstart", "--root", str(root), "--seed", "1", "--resume", "never"]
    options += ["--tracking", "none", *QUIET]
    options += ["--total-steps", str(steps), "--optim.lr-warmup-steps", "2", "--data.global-batch-size", "32"]
    address = free_address()
    begun = time.perf_counter()
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", TRAIN, *options]
            + (
                ["--coordinator", address, "--num-processes", str(processes), "--process-id", str(index)]
                if processes > 1
                else []
            ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for index in range(processes)
    ]
    codes = [process.wait() for process in running]
    whole = time.perf_counter() - begun
    assert not any(codes), codes
    (folder,) = [run for run in list_runs(resolve_root(root)) if run.name.endswith("-s1")]
    rows = read_metrics(folder).to_pylist()
    later = rows[len(rows) // 4 :]
    rate = 32 * len(later) / sum(row["step_s"] for row in later)
    return whole - rows[-1]["seconds"], rate


def main() -> None:
    """Measure, print the report; with --json also write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rate", type=float, default=100_000.0)
    parser.add_argument("--batch", type=int, default=768)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    report = Report("what the host costs a run", ("jax", "jaxlib", "grain", "orbax-checkpoint", "numpy"))
    with tempfile.TemporaryDirectory() as place:
        build = "from trm_data.cli import main; import sys; main(sys.argv[1:])"
        subprocess.run(
            [sys.executable, "-c", build, "build", DATASET, "--root", place],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        layout = resolve_root(place)
        report.note(f"{len(open_dataset(DATASET, layout)):,} rows; overhead and its steps of 16 slots")
        small = ("--data.global-batch-size", "16")
        overhead: dict[str, list[float]] = {way: [] for way in WAYS}
        whole: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(arguments.repeats):
            for way, options in WAYS.items():
                overhead[way].append(without_step(layout, [*small, *options], arguments.steps)[0] * 1e3)
                whole[way].append(with_step(layout, [*small, *options], arguments.steps) * 1e3)
        for way in WAYS:
            report.add(f"host overhead, {way}", overhead[way], unit="ms a step", n=arguments.steps)
        for way in WAYS:
            report.add(
                f"a whole step of a tiny model, {way}", whole[way], unit="ms a step", n=arguments.steps
            )
        slots, steps = ("--data.global-batch-size", str(arguments.batch)), 1000
        for way, options in list(WAYS.items())[:2]:
            step_s = arguments.batch / arguments.rate
            waits = [without_step(layout, [*slots, *options], steps, step_s)[1] for _ in range(3)]
            name = f"waiting for batches of {arguments.batch} at {arguments.rate:,.0f} examples/s, {way}"
            report.add(name, waits, unit="share", n=steps)
        saving(layout, report, arguments.repeats)
        for processes in (1, 2):
            done = [command(Path(place), processes, 60) for _ in range(3)]
            named = "1 process" if processes == 1 else f"{processes} processes"
            report.add(f"start-up to the first step, {named}", [one[0] for one in done], unit="s", n=1)
            report.add(f"quickstart, batch 32, {named}", [one[1] for one in done], unit="examples/s", n=60)
    found = {line.name: line.median for line in report.measurements}
    for way in WAYS:
        value = found[f"host overhead, {way}"]
        said = "reached" if value < MOST_OVERHEAD_MS else "MISSED"
        report.note(f"{said}: host overhead, {way}, {value:.3f} ms, target under {MOST_OVERHEAD_MS} ms")
    for name, value in found.items():
        if name.startswith("waiting"):
            said = "reached" if value < MOST_WAIT else "MISSED"
            report.note(f"{said}: {name}: {value:.2%}, target under {MOST_WAIT:.0%}")
    report.print()
    if arguments.json is not None:
        report.write_json(arguments.json)


if __name__ == "__main__":
    main()
