"""Targets by name, the settings of their compilers, and the processes that use them. Does not import jax.

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
from dataclasses import dataclass
from importlib.metadata import distributions, requires, version
from pathlib import Path
from typing import Literal

import trm_train
from trm_data.errors import closest
from trm_train.cost import DEVICE_BYTES, PEAK_FLOPS
from trm_train.errors import ConfigError

USABLE_ON_GPUS = 0.92
"""Share of GPU memory that programs can use: `XLA_PYTHON_CLIENT_MEM_FRACTION` of `trm-train`."""


@dataclass(frozen=True)
class Target:
    """A machine that a step can be compiled for.

    Attributes:
        name: Name, as users type it.
        platform: Platform, which selects the compiler.
        kind: Kind of its devices, a key of `PEAK_FLOPS` and `DEVICE_BYTES`.
        topology: Topology in jax notation, for example v4:2x4x4.
        devices: Number of devices.
        clock_hz: Clock of a TPU, to convert cycles to time; None for GPUs.
    """

    name: str
    platform: Literal["tpu", "cuda"]
    kind: str
    topology: str
    devices: int
    clock_hz: float | None = None

    @property
    def usable_bytes(self) -> int:
        """Memory of one device that a program can use."""
        return int(DEVICE_BYTES[self.kind] * (1 if self.platform == "tpu" else USABLE_ON_GPUS))

    @property
    def peak_flops(self) -> float:
        """Peak performance of all devices for matrix products in bfloat16 (FLOP/s)."""
        return self.devices * PEAK_FLOPS[self.kind]


@dataclass(frozen=True)
class _Tpu:
    """A TPU generation: slices are named by cores or chips, and have two or three dimensions."""

    kind: str
    clock_hz: float
    cores_in_name: int
    shapes: tuple[str, ...]


TPUS = {
    # Clocks: 1.05 GHz is Google's figure for v4; the others follow from the peak and the number of matrix units. With
    # these clocks, the compilers estimate a product of 8,192^3 at 1.08 (v4), 1.11 (v5p), 1.14 (v5e) and 1.42 (v6e)
    # times the ideal time. So the times for v6e are the least certain.
    "v4": _Tpu("TPU v4", 1.05e9, 2, ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8")),
    "v5p": _Tpu(
        "TPU v5p", 1.75e9, 2, ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8")
    ),
    "v5e": _Tpu("TPU v5 lite", 1.5e9, 1, ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")),
    "v6e": _Tpu("TPU v6 lite", 1.75e9, 1, ("2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")),
}
GPUS = {"h100": "H100", "h200": "H200", "a100": "A100"}
GPU_COUNTS = (1, 2, 4, 8)

CUDA_DEVICES = {
    # kind: (core_count, memory_bandwidth, l2_cache_size, clock_rate_ghz, shared memory per core and block, major)
    "H100": (132, 3_352_320_000_000, 52_428_800, 1.98, 233_472, 232_448, 9),
    "H200": (132, 4_800_000_000_000, 62_914_560, 1.98, 233_472, 232_448, 9),
    "A100": (108, 1_555_000_000_000, 41_943_040, 1.41, 167_936, 166_912, 8),
}
"""Properties of GPUs. Sources: XLA's descriptions of these devices, and NVIDIA's data sheets."""


def _chips(shape: str) -> int:
    count = 1
    for length in shape.split("x"):
        count *= int(length)
    return count


def _all_targets() -> dict[str, Target]:
    found: list[Target] = []
    for generation, tpu in TPUS.items():
        for shape in tpu.shapes:
            chips = _chips(shape)
            name = f"{generation}-{chips * tpu.cores_in_name}"
            found.append(Target(name, "tpu", tpu.kind, f"{generation}:{shape}", chips, tpu.clock_hz))
    for short, kind in GPUS.items():
        for count in GPU_COUNTS:
            name = short if count == 1 else f"{short}x{count}"
            found.append(Target(name, "cuda", kind, f"1x1x{count}", count))
    return {target.name: target for target in found}


TARGETS = _all_targets()


def find_target(name: str) -> Target:
    """Return a target by its name.

    Raises:
        ConfigError: No target has this name; the nearest name is suggested.
    """
    target = TARGETS.get(name.lower())
    if target is not None:
        return target
    near = closest(name.lower(), TARGETS)
    advice = "" if near is None else f"Did you mean {near}?"
    families = "v4-8 to v4-1024, v5p-8 to v5p-1024, v5e-4 to v5e-256, v6e-4 to v6e-256, h100, h200, a100 (x2, x4, x8)"
    raise ConfigError(
        f"--target: unknown target (got {name!r}; expected one of {families}). {advice}".rstrip()
    )


def cuda_description(kind: str) -> str:
    """Return XLA's description of a GPU, a text protobuf."""
    cores, bandwidth, cache, clock, per_core, per_block, major = CUDA_DEVICES[kind]
    return f"""
gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  shared_memory_per_core: {per_core} threads_per_core_limit: 2048 core_count: {cores} fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: {bandwidth} l2_cache_size: {cache} clock_rate_ghz: {clock}
  device_memory_size: {DEVICE_BYTES[kind]} shared_memory_per_block_optin: {per_block}
  cuda_compute_capability {{ major: {major} }} registers_per_core_limit: 65536 registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 8 }}
device_description_str: "NVIDIA {kind}"
"""


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
