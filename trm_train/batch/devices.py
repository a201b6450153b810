"""Divides the GPUs or CPU cores of a machine among parallel runs."""

from __future__ import annotations

import os
import shutil
import subprocess

from trm_train.errors import ConfigError
from trm_train.targets.catalog import USABLE_ON_GPUS


def shares(jobs: int) -> list[dict[str, str]]:
    """Return the environment variables of each of several parallel runs.

    The runs see disjoint sets of GPUs. Runs that outnumber the GPUs share them: each run gets an equal part of the
    memory of one GPU. Without GPUs, runs get disjoint sets of cores, in `TRM_CORES`.

    Raises:
        ConfigError: More runs than cores.
    """
    if jobs == 1:
        return [{}]
    gpus = _gpus()
    if gpus and jobs > len(gpus):
        memory = f"{USABLE_ON_GPUS / -(-jobs // len(gpus)):.3f}"
        return [
            {"CUDA_VISIBLE_DEVICES": gpus[job % len(gpus)], "XLA_PYTHON_CLIENT_MEM_FRACTION": memory}
            for job in range(jobs)
        ]
    if gpus:
        return [{"CUDA_VISIBLE_DEVICES": ",".join(part)} for part in _divided(gpus, jobs, "GPUs")]
    cores = [str(core) for core in sorted(os.sched_getaffinity(0))]
    return [{"TRM_CORES": ",".join(part)} for part in _divided(cores, jobs, "cores")]


def take_share() -> None:
    """Restrict this process to the cores in `TRM_CORES`, if set."""
    cores = os.environ.get("TRM_CORES")
    if cores:
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})


def _divided(what: list[str], jobs: int, name: str) -> list[list[str]]:
    if len(what) < jobs:
        raise ConfigError(
            f"--jobs {jobs}: got {jobs} runs for {len(what)} {name}; expected at most one run on each"
        )
    each = len(what) // jobs
    return [what[job * each : (job + 1) * each] for job in range(jobs)]


def _gpus() -> list[str]:
    """Return the numbers of the NVIDIA GPUs that this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [part for part in visible.split(",") if part and not part.startswith("-")]
    program = shutil.which("nvidia-smi")
    if program is None or os.environ.get("JAX_PLATFORMS") == "cpu":
        return []
    try:
        done = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [str(i) for i, line in enumerate(done.stdout.splitlines()) if line.startswith("GPU ")]
