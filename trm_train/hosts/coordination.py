"""Joined processes of a run: barriers, comparison of facts, and the end of a process that fails.

The processes communicate through the key-value store of jax's coordination service, which runs in process 0. Nothing
here uses a device, so it works before anything is compiled. The service sends heartbeats, and ends every process when
one is lost.
"""

from __future__ import annotations

import atexit
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax

from trm_data.command import Exit
from trm_data.command.signals import end_now
from trm_data.errors import LabError
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


class KeyValueStore(Protocol):
    """Key-value store of jax's coordination service, shared by all processes."""

    def key_value_set(self, key: str, value: str, allow_overwrite: bool = False) -> None:
        """Store a value."""
        ...

    def key_value_delete(self, key: str) -> None:
        """Delete a value."""
        ...

    def key_value_dir_get(self, key: str) -> list[tuple[str, str]]:
        """Return all keys and values below a key."""
        ...


@dataclass
class Hosts:
    """One of the processes of a run, and its connection to the others. Without a store it is the only one.

    Attributes:
        index: Number of this process, from 0.
        count: Number of processes.
        store: Store for communication.
        say: Shows a message to the user.
        names: Host and process id of each process, known after the first barrier.
    """

    index: int = 0
    count: int = 1
    store: KeyValueStore | None = None
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

    def barrier(self, place: str, said: str = "-", limit_s: float | None = None) -> list[str]:
        """Wait until every process has reached a place; return the message of each, by number.

        Args:
            place: Name of the barrier. Each process passes the same places in the same order; a place may repeat.
            said: Message of this process.
            limit_s: Timeout (s), extended by any extra patience for the bucket. None for `MEET_S`.
        """
        if self.store is None:
            return [said]
        limit_s = (MEET_S if limit_s is None else limit_s) + patience_beyond_usual_s()
        self._met[place] += 1
        here = f"meet/{place}/{self._met[place]}"
        self.store.key_value_set(f"trm/{here}/{self.index}", said)
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
        assert self.store is not None
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
