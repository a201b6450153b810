"""Facts about devices: peak FLOP/s, memory, and peak memory use."""

from __future__ import annotations

import os
from typing import Any

import jax
from jax.sharding import Mesh

from trm_train.cost import PEAK_FLOPS


def peak_flops_per_s(mesh: Mesh, device_tflops: float = 0.0) -> float | None:
    """Return the peak performance of a mesh (FLOP/s); None if it is unknown for one of its devices.

    Args:
        mesh: From `make_mesh`.
        device_tflops: Peak of one device, given by the user (TFLOP/s); 0 uses the known value of its kind.
    """
    if device_tflops:
        return device_tflops * 1e12 * mesh.size
    peaks = [_peak_of(device) for device in mesh.devices.flat]
    known = [peak for peak in peaks if peak is not None]
    return sum(known) if len(known) == len(peaks) else None


def cpu_threads(mesh: Mesh) -> int | None:
    """Return the number of threads that XLA computes with on a CPU; None on other devices.

    XLA divides long sums and weight gradients over its threads, so results of different numbers differ by rounding.
    XLA takes the environment variable NPROC, or else the cores that this process may use.
    """
    if mesh.devices.flat[0].platform != "cpu":
        return None
    given = os.environ.get("NPROC", "")
    return int(given) if given.isdecimal() and int(given) else len(os.sched_getaffinity(0))


def held_bytes() -> int | None:
    """Return the peak memory use over this host's devices since the process began; None if not reported."""
    stats = [device.memory_stats() or {} for device in jax.local_devices()]
    return max((held["peak_bytes_in_use"] for held in stats if "peak_bytes_in_use" in held), default=None)


def _peak_of(device: Any) -> float | None:
    kind = device.device_kind.lower()
    return next((peak for name, peak in PEAK_FLOPS.items() if name.lower() in kind), None)
