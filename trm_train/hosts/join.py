"""Joins the processes of a run, using options, environment variables, or jax's detection of a TPU pod or Slurm."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Any

import jax

from trm_train.errors import HostError
from trm_train.hosts.coordination import Hosts, Say

ENVIRONMENT = {
    "coordinator": "JAX_COORDINATOR_ADDRESS",
    "num_processes": "JAX_NUM_PROCESSES",
    "process_id": "JAX_PROCESS_ID",
}


@dataclass(frozen=True)
class Address:
    """Network address of the coordinator."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def bind(self) -> str | None:
        """Address that process 0 binds to: loopback only if the coordinator's name is a loopback name, else None."""
        loopback = self.host in ("localhost", "::1") or self.host.startswith("127.")
        return str(self) if loopback else None


def parse_address(text: str) -> Address:
    """Parse `HOST:PORT`; an IPv6 host is in brackets."""
    host, _, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise HostError(f"--coordinator {text}: expected HOST:PORT, such as 10.0.0.1:8476 or [fd00::1]:8476")
    return Address(host, int(port))


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

    jax aborts the process if the others do not join in time.

    Args:
        place: From `place_of`; None lets jax detect it, on a TPU pod or under Slurm.
        limit_s: Timeout for the others (s).
        say: Shows a message to the user.
    """
    if place is not None:
        say(f"process {place.index} of {place.count} joins at {place.coordinator}, within {limit_s:g} s")
    _start_jax(place, limit_s)
    hosts = Hosts(jax.process_index(), jax.process_count(), _store(), say)
    hosts.names = hosts.barrier("start", f"{socket.gethostname()}, pid {os.getpid()}")
    say(f"{hosts.count} of {hosts.count} processes joined")
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
    timeout = max(int(limit_s), 1)
    try:
        if place is None:
            jax.distributed.initialize(initialization_timeout=timeout)
            return
        jax.distributed.initialize(
            str(place.coordinator),
            place.count,
            place.index,
            cluster_detection_method="deactivate",
            coordinator_bind_address=place.coordinator.bind,
            initialization_timeout=timeout,
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
