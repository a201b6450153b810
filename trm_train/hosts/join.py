"""Joins the processes of a run, using options, environment variables, or jax's detection of a TPU pod or Slurm."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any

import jax

from trm_train.errors import HostError
from trm_train.hosts.coordination import Hosts
from trm_train.hosts.roll_call import Address, Say, gather, parse_address, report, wait_for_service

ENVIRONMENT = {
    "coordinator": "JAX_COORDINATOR_ADDRESS",
    "num_processes": "JAX_NUM_PROCESSES",
    "process_id": "JAX_PROCESS_ID",
}
DEAD_S = 100
"""Heartbeat timeout after which jax ends a process (s)."""
FAREWELL_S = 60
"""Timeout of the shutdown barrier (s)."""


@dataclass(frozen=True)
class Place:
    """Rank of a process in its run.

    Attributes:
        coordinator: Address of process 0.
        index: Number of the process.
        count: Number of processes.
    """

    coordinator: Address
    index: int
    count: int


def place_of(coordinator: str | None, num_processes: int | None, process_id: int | None) -> Place | None:
    """Return the rank of a process from its options or the environment; None if neither gives a coordinator."""
    coordinator = coordinator or os.environ.get(ENVIRONMENT["coordinator"]) or None
    if coordinator is None:
        if num_processes is not None or process_id is not None:
            raise HostError(
                "--num-processes and --process-id need --coordinator HOST:PORT, the address of process 0"
            )
        return None
    count = _number("num_processes", num_processes)
    index = _number("process_id", process_id)
    if count < 1:
        raise HostError(f"--num-processes {count}: expected at least 1")
    if not 0 <= index < count:
        raise HostError(f"--process-id {index}: expected 0 to {count - 1}, since --num-processes is {count}")
    return Place(parse_address(coordinator), index, count)


def join(place: Place | None, limit_s: float, say: Say) -> Hosts:
    """Join the other processes; return when all have joined. Call it before jax uses any device.

    Args:
        place: From `place_of`; None lets jax detect it, on a TPU pod or under Slurm.
        limit_s: Timeout for the others (s).
        say: Shows a message on who has joined.
    """
    if place is not None and place.index == 0:
        gather(place.coordinator, place.count, limit_s, say)
    elif place is not None:
        report(place.coordinator, place.index, place.count, limit_s, say)
        wait_for_service(place.coordinator, limit_s, say)
    _start_jax(place, limit_s)
    hosts = Hosts(jax.process_index(), jax.process_count(), _store(), say)
    hosts.names = hosts.barrier("start", f"{socket.gethostname()}, pid {os.getpid()}")
    if place is None:
        say(f"{hosts.count} of {hosts.count} hosts joined")
    check_devices(jax.default_backend(), jax.local_device_count(), hosts.count)
    return hosts


def check_devices(platform: str, devices: int, count: int) -> None:
    """Raise HostError for several CPU devices in each of several processes: their queued steps hang in this jax."""
    if platform == "cpu" and count > 1 and devices > 1:
        raise HostError(
            f"{devices} CPU devices in each of {count} processes: jax {jax.__version__} hangs there. Start a "
            f"process for each (without --xla_force_host_platform_device_count in XLA_FLAGS)"
        )


def _number(name: str, given: int | None) -> int:
    option, variable = f"--{name.replace('_', '-')}", ENVIRONMENT[name]
    text = os.environ.get(variable)
    if given is not None:
        return given
    if not text:
        raise HostError(f"{option} (or {variable}) is missing: every process needs it")
    try:
        return int(text)
    except ValueError:
        raise HostError(f"{variable}={text!r}: expected a whole number") from None


def _start_jax(place: Place | None, limit_s: float) -> None:
    jax.config.update(
        "jax_enable_preemption_service", False
    )  # it would swallow SIGTERM; runs handle preemption themselves
    limits: Any = {
        "initialization_timeout": max(int(limit_s), 1),
        "heartbeat_timeout_seconds": DEAD_S,
        "shutdown_timeout_seconds": FAREWELL_S,
    }
    try:
        if place is None:
            jax.distributed.initialize(**limits)
            return
        bind = place.coordinator.bind
        jax.distributed.initialize(
            str(place.coordinator),
            place.count,
            place.index,
            cluster_detection_method="deactivate",
            coordinator_bind_address=str(Address(bind, place.coordinator.port)) if bind else None,
            **limits,
        )
    except ValueError as error:
        raise HostError(
            f"--distributed: this is neither a TPU pod nor a Slurm job that jax knows ({error}); name the processes: "
            "--coordinator HOST:PORT --num-processes N --process-id I"
        ) from error
    except RuntimeError as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise HostError(f"jax could not connect the processes: {first}") from error


def _store() -> Any:
    """Return the key-value store of jax's coordination service, which has no public API."""
    from jax._src import distributed

    return distributed.global_state.client
