"""Starts real processes that train or evaluate one run together, with the commands that users run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

LIMIT_S = 240.0
"""Timeout of a process in seconds; on expiry it is killed, and the test fails."""
RUN = [
    *("run", "quickstart", "--data.dataset", "small", "--data.global-batch-size", "8", "--tracking", "none"),
    *("--model.hidden-size", "16", "--model.num-heads", "2", "--model.num-layers", "1"),
    *str.split("--model.l-cycles 1 --model.halt-max-steps 3 --optim.lr 1e-4 --optim.lr-warmup-steps 2"),
    *("--optim.puzzle-emb-lr", "1e-4"),
]
"""Options of a tiny run; tests add total steps and intervals."""
TRAIN = "import sys; from trm_train.cli import main; main(sys.argv[1:])"
EXAMPLES = 16
"""Rows per process in a batch of an evaluation, fewer than by default, so that there are several batches."""
EVALUATE = (
    f"import sys; from trm_train.training import validate; validate.BATCH_EXAMPLES = {EXAMPLES}; "
    "from trm_eval.cli import main; main(sys.argv[1:])"
)


def free_address() -> str:
    """Return an address on this machine with an unused port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def start(
    arguments: list[str], program: str = TRAIN, before: Sequence[str] = (), **environment: str
) -> subprocess.Popen[str]:
    """Start `trm-train` (or another program) with one CPU device; `before` is a command prefix."""
    return subprocess.Popen(
        [*before, sys.executable, "-W", "ignore", "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"JAX_PLATFORMS": "cpu"} | environment,
    )


def start_together(
    root: Path | str, count: int, options: list[str], environments: list[dict[str, str]] | None = None
) -> list[subprocess.Popen[str]]:
    """Start all processes of one run, each with its own environment if given."""
    own = environments or [{} for _ in range(count)]
    together = ["--root", str(root), "--coordinator", free_address(), "--num-processes", str(count)]
    return [
        start([*RUN, *options, *together, "--process-id", str(index)], **own[index]) for index in range(count)
    ]


def ended(processes: list[subprocess.Popen[str]]) -> list[subprocess.CompletedProcess[str]]:
    """Return how each process ended; kill all after a timeout. Reads all outputs at once: one may wait for another."""

    def end(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
        out, err = process.communicate(timeout=LIMIT_S)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    with ThreadPoolExecutor(len(processes)) as pool:
        ends = [pool.submit(end, process) for process in processes]
        wait(ends, return_when=FIRST_EXCEPTION)
        for process in processes:
            process.kill()
    return [one.result() for one in ends]


def train_together(
    root: Path | str, count: int, options: list[str]
) -> list[subprocess.CompletedProcess[str]]:
    """Train a run in several processes; all must succeed."""
    return ended_well(start_together(root, count, options))


def start_evaluating(root: Path, count: int, options: list[str]) -> list[subprocess.Popen[str]]:
    """Start all processes of one evaluation."""
    together = ["--root", str(root), "--coordinator", free_address(), "--num-processes", str(count)]
    return [
        start(["run", "quickstart", *options, *together, "--process-id", str(index)], EVALUATE)
        for index in range(count)
    ]


def evaluate_together(root: Path, count: int, options: list[str]) -> list[subprocess.CompletedProcess[str]]:
    """Evaluate a run in several processes; all must succeed."""
    return ended_well(start_evaluating(root, count, options))


def ended_well(processes: list[subprocess.Popen[str]]) -> list[subprocess.CompletedProcess[str]]:
    """Return how each process ended, after checking for exit code 0."""
    done, count = ended(processes), len(processes)
    assert [one.returncode for one in done] == [0] * count, "\n".join(one.stderr[-3000:] for one in done)
    return done
