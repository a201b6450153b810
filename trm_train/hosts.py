"""Processes of a run: how they join, barriers, comparison of facts, and the end of a process that fails.

They join by options, environment variables, or jax's detection of a TPU pod or Slurm. They communicate through the
key-value store of jax's coordination service, which runs in process 0. Nothing here uses a device, so it works before
anything is compiled. The service sends heartbeats, and ends every process when one is lost.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import jax

from trm_data.command import end_now
from trm_data.errors import Exit, LabError
from trm_data.storage.gcs import patience_beyond_usual_s
from trm_train.errors import HostError

MEET_S = 300.0
"""Timeout of a barrier (s), from the arrival of the first process; extended by extra patience for a bucket
(`TRM_BUCKET_PATIENCE_S`)."""
POLL_S = 0.1
"""Polling interval of a barrier (s)."""
CLOSING_S = 10.0
"""Time that a failed process waits for its own unfinished checkpoint (s)."""
MOST_DIFFERENCES = 5
"""Maximum number of differences in a message."""

Say = Callable[[str], None]


@dataclass
class Hosts:
    """One of the processes of a run, and its connection to the others. Without a store it is the only one.

    Attributes:
        index: Number of this process, from 0.
        count: Number of processes.
        store: Key-value store of jax's coordination service, shared by all processes.
        say: Shows a message to the user.
        names: Host and process id of each process, known after the first barrier.
    """

    index: int = 0
    count: int = 1
    store: Any = None
    say: Say = lambda _: None
    names: list[str] = field(default_factory=list)
    _failed: bool = False
    _met: Counter[str] = field(default_factory=Counter[str])

    @property
    def is_coordinator(self) -> bool:
        """Whether this is process 0, which writes the files for all."""
        return self.index == 0

    def name(self, index: int) -> str:
        """Return the name of a process for messages: its number, host and process id."""
        return f"process {index} ({self.names[index]})" if index < len(self.names) else f"process {index}"

    def barrier(self, place: str, message: str = "-", limit_s: float | None = None) -> list[str]:
        """Wait until every process has reached a place; return the message of each, by number.

        Args:
            place: Name of the barrier. Each process passes the same places in the same order; a place may repeat.
            message: Message of this process.
            limit_s: Timeout (s), extended by any extra patience for the bucket. None for `MEET_S`.
        """
        if self.store is None:
            return [message]
        limit_s = (MEET_S if limit_s is None else limit_s) + patience_beyond_usual_s()
        self._met[place] += 1
        here = f"meet/{place}/{self._met[place]}"
        self.store.key_value_set(f"trm/{here}/{self.index}", message)
        deadline = time.monotonic() + limit_s
        while len(there := self._below(here)) < self.count:
            if time.monotonic() > deadline:
                missing = ", ".join(self.name(index) for index in range(self.count) if index not in there)
                raise HostError(
                    f"{place}: waited {limit_s:.0f} s for {missing}; see its log for what it does"
                )
            time.sleep(POLL_S)
        if self._met[place] > 1:  # all are here again, so all have read the previous messages
            with suppress(RuntimeError):
                self.store.key_value_delete(f"trm/meet/{place}/{self._met[place] - 1}/{self.index}")
        return [there[index] for index in range(self.count)]

    def prove_equal(self, place: str, facts: Mapping[str, Any]) -> None:
        """Raise HostError if the processes differ in a fact.

        Args:
            place: As in `barrier`.
            facts: Plain JSON values by name.
        """
        everyone = self.barrier(place, json.dumps(facts, sort_keys=True))
        problems = differences([json.loads(said) for said in everyone], self.name)
        if problems:
            self._failed = (
                True  # all processes raise this error, so jax's shutdown barrier ends them together
            )
            more = len(problems) - MOST_DIFFERENCES
            shown = "\n  ".join(problems[:MOST_DIFFERENCES] + ([f"and {more} more"] if more > 0 else []))
            raise HostError(f"{place}: the processes belong to different runs:\n  {shown}")

    @contextmanager
    def ending_alone(self) -> Generator[None, None, None]:
        """Context in which an error ends this process without waiting for the others; see `fail`."""
        try:
            yield
        except BaseException as error:
            self.fail(error)
            raise

    def fail(self, error: BaseException) -> None:
        """Let this process end with an error although the others wait for it, in a step or in jax's shutdown barrier.

        The others then end too: their step fails, or jax's coordination service aborts them.
        """
        if self.store is None or self._failed:
            return
        self._failed = True
        code = exit_code_of(error)
        atexit.register(_end, code)  # runs before jax's shutdown barrier, which waits for all
        late = threading.Timer(CLOSING_S, self._end_late, (str(error) or type(error).__name__, code))
        late.daemon = True
        late.start()

    def _end_late(self, text: str, code: int) -> None:
        """End a failed process that still waits for others, to finish a checkpoint."""
        self.say(text)
        _end(code)

    def _below(self, folder: str) -> dict[int, str]:
        """Return the message of each process under a key."""
        found = self.store.key_value_dir_get(f"trm/{folder}/")
        return {int(key.rpartition("/")[2]): said for key, said in found}


def _end(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    end_now(code)


def differences(everyone: list[dict[str, Any]], name: Callable[[int], str]) -> list[str]:
    """Return a line per process and fact that differs from the majority, or from process 0 if there is none."""
    problems: list[str] = []
    for fact in sorted({fact for facts in everyone for fact in facts}):
        values = [json.dumps(facts.get(fact)) for facts in everyone]
        usual = max(Counter(values), key=lambda value: (values.count(value), value == values[0]))
        example = values.index(usual)
        problems += [
            f"{name(index)}: {fact} is {value}, of {name(example)} {usual}"
            for index, value in enumerate(values)
            if value != usual
        ]
    return problems


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of a process that raises this error."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else Exit.DONE if error.code is None else Exit.FOUND
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED
    expected = (LabError, OSError)
    return getattr(error, "exit_code", Exit.ERROR) if isinstance(error, expected) else 1


def lost(error: BaseException, what: str, hint: str) -> HostError:
    """Return the error of a step that fails because another process has ended.

    Args:
        error: Error from jax.
        what: Name of the work, for the message.
        hint: How to continue.
    """
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return HostError(
        f"{what}: the processes could not finish a step together ({first}). Another process has failed: see its "
        f"log; {hint}",
        Exit.STALLED,
    )


@contextmanager
def explaining_lost_processes(hosts: Hosts, what: str, hint: str) -> Generator[None, None, None]:
    """Context in which a jax error of several processes is replaced by the error of `lost`."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if hosts.count == 1:
            raise
        raise lost(error, what, hint) from error


ENVIRONMENT = {
    "coordinator": "JAX_COORDINATOR_ADDRESS",
    "num_processes": "JAX_NUM_PROCESSES",
    "process_id": "JAX_PROCESS_ID",
}


ADDRESS = re.compile(r"(?P<host>\[[^\[\]]+\]|[^:\[\]]+):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True)
class Place:
    """Rank of a process in its run.

    Attributes:
        coordinator: Address of process 0, `HOST:PORT`; an IPv6 host is in brackets.
        index: Number of the process.
        count: Number of processes.
    """

    coordinator: str
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
    found = ADDRESS.fullmatch(coordinator)
    if found is None or not 0 < int(found["port"]) < 2**16:
        raise HostError(
            f"--coordinator {coordinator}: expected HOST:PORT, such as 10.0.0.1:8476 or [fd00::1]:8476"
        )
    return Place(coordinator, index, count)


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
        loopback = place.coordinator.startswith(("localhost:", "[::1]:", "127."))
        jax.distributed.initialize(
            place.coordinator,
            place.count,
            place.index,
            cluster_detection_method="deactivate",
            coordinator_bind_address=place.coordinator if loopback else None,
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
