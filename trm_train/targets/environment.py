"""Compilers of targets, in a folder next to the project, and the processes that use them.

In the project's own environment, libtpu would log errors at every start of jax. So libtpu and NVIDIA's compiler are
installed in `.tools/targets` (or the folder that `TRM_TARGETS` names). Only a process that compiles for a target has
that folder on its path.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import distributions, requires, version
from pathlib import Path

import trm_train
from trm_train.errors import ConfigError
from trm_train.targets.catalog import Target

FOLDER = "TRM_TARGETS"
COMPILES_FOR = "TRM_COMPILES_FOR"
"""Environment variable with the target's name, set in a process that has the target's compiler."""
NEEDED = {
    "tpu": ("libtpu",),
    "cuda": ("jax-cuda12-plugin", "jax-cuda12-pjrt", "nvidia-cuda-nvcc-cu12", "nvidia-cudnn-cu12"),
}
NOISE = re.compile(
    r"cudart_stub|WARNING: All log messages before absl|hlo_rematerialization|computation_placer"
)
"""Compiler lines on stderr that are irrelevant to users."""


def packages_folder() -> Path:
    """Return the folder of the compilers, which may not exist."""
    named = os.environ.get(FOLDER)
    if named:
        return Path(named)
    beside = Path(trm_train.__file__).parents[1] / ".tools" / "targets"
    return beside if beside.is_dir() else Path(".tools/targets")


def check_packages(target: Target) -> None:
    """Check that the compiler of a target is installed.

    Raises:
        ConfigError: The compiler is missing; the message says what to install.
    """
    folder = packages_folder()
    there = {found.metadata["Name"].lower() for found in distributions(path=[str(folder)])}
    missing = [name for name in NEEDED[target.platform] if name not in there]
    if missing:
        raise ConfigError(
            f"--target {target.name}: its compiler is not installed (missing {', '.join(missing)} in {folder}). Run "
            f"`make targets`, or: uv pip install --target {folder} --no-deps {' '.join(_pinned(missing))}"
        )


def compiles_here(target: Target) -> bool:
    """Return whether this process has the target's compiler on its path."""
    return os.environ.get(COMPILES_FOR) == target.name


def run_with_compiler(target: Target, arguments: Sequence[str]) -> int:
    """Run `trm-train` in a process that has the target's compiler on its path; return its exit code."""
    check_packages(target)
    program = [sys.executable, "-m", "trm_train", *arguments]
    process = subprocess.Popen(program, env=environment(target), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if not NOISE.search(line):
            sys.stderr.write(line)
    return process.wait()


def environment(target: Target) -> dict[str, str]:
    """Return the environment variables of a process that compiles for a target."""
    own = str(Path(trm_train.__file__).parents[1])
    path = [str(packages_folder().absolute()), own, os.environ.get("PYTHONPATH", "")]
    found = os.environ | {
        COMPILES_FOR: target.name,
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(part for part in path if part),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    if target.platform == "tpu":
        # Without the first, libtpu waits for a metadata server; without the last, a second process fails at a lock.
        found |= {
            "TPU_SKIP_MDS_QUERY": "1",
            "TPU_ACCELERATOR_TYPE": "v5litepod-" + target.name[4:]
            if target.name.startswith("v5e")
            else target.name,
            "TPU_WORKER_HOSTNAMES": "localhost",
            "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        }
    else:
        # Triton's products need tuning on a device; untuned ones overflow or find no tiles.
        flags = os.environ.get("XLA_FLAGS", "")
        found["XLA_FLAGS"] = f"{flags} --xla_gpu_enable_triton_gemm=false".strip()
    return found


def _pinned(names: Sequence[str]) -> list[str]:
    """Return requirements with the versions that fit the installed jax."""
    libtpu = next(
        found.split(";")[0].strip() for found in requires("jax") or [] if found.startswith("libtpu")
    )
    jax = version("jax")
    return [
        f"{name}=={jax}" if name.startswith("jax-") else libtpu if name == "libtpu" else name
        for name in names
    ]


if __name__ == "__main__":
    # For `make targets`: print the packages to install.
    sys.stdout.write("\n".join(_pinned([name for names in NEEDED.values() for name in names])) + "\n")
