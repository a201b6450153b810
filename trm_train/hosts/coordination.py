"""Joined processes of a run: barriers, comparison of facts, heartbeats and failing together.

The processes communicate through the key-value store of jax's coordination service, which runs in process 0. Nothing
here uses a device. So it works before anything is compiled, and in a thread while the main one waits for a device.

Each process has a thread that sends heartbeats and checks whether another process has failed. A step that waits for a
lost process would wait forever; that thread ends the waiting process instead, and names the failed one.
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
BEAT_S = 1.0
"""Heartbeat interval (s)."""
UNHEARD_BEATS = 30
"""Heartbeats in a row that the coordination service may refuse before it counts as gone."""
SILENT_BEATS = 3
"""Missed heartbeats after which a process counts as silent."""
SILENT_S = 60.0
"""Heartbeat timeout of a process (s)."""
CLOSING_S = 10.0
"""Time that a failed process waits for its own unfinished checkpoint (s)."""
LAST_WORDS_S = 5.0
"""Time that a process waits for its checkpoint when another process has failed (s)."""
GONE_S = 45.0
"""Time that process 0 waits for the others to end (s)."""
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
        own_process: Whether the command owns the whole process, so that the process may be ended.
        last_words: Called with a message when another process has failed, before this one ends.
    """

    index: int = 0
    count: int = 1
    store: KeyValueStore | None = None
    say: Say = lambda _: None
    names: list[str] = field(default_factory=list)
    own_process: bool = False
    last_words: Say = lambda _: None
    _closed: threading.Event = field(default_factory=threading.Event)
    _seen: dict[int, tuple[str, float]] = field(default_factory=dict)
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
            more = len(problems) - MOST_DIFFERENCES
            shown = "\n  ".join(problems[:MOST_DIFFERENCES] + ([f"and {more} more"] if more > 0 else []))
            raise HostError(f"{place}: the processes belong to different runs:\n  {shown}")

    def tell(self, what: str, said: str) -> None:
        """Publish a message that the others may read without waiting."""
        if self.store is not None:
            self.store.key_value_set(f"trm/{what}/{self.index}", said, True)

    def told(self, what: str) -> list[str]:
        """Return the messages of all processes that were published under a name."""
        return [] if self.store is None else list(self._below(what).values())

    @contextmanager
    def failing_together(self) -> Generator[None, None, None]:
        """Context in which an error is sent to the other processes, which end with the same exit code."""
        if self.store is None:
            yield
            return
        watch = threading.Thread(target=self._watch, name="hosts", daemon=True)
        watch.start()
        try:
            yield
        except BaseException as error:
            self.fail(error)
            raise
        self._closed.set()
        watch.join()

    def silent(self) -> list[int]:
        """Return the processes without a heartbeat for a few intervals."""
        if self.store is None:
            return []
        before = self._below("alive")
        time.sleep(SILENT_BEATS * BEAT_S)
        after = self._below("alive")
        return [i for i in range(self.count) if i != self.index and before.get(i) == after.get(i)]

    def fail(self, error: BaseException) -> None:
        """Send an error to the others, once, and make sure that this process does not wait for them."""
        if self.store is None or self._closed.is_set():
            return
        self._closed.set()
        code, text = exit_code_of(error), _said_of(error)
        atexit.register(self._end, code)  # runs before jax's shutdown barrier, which waits for all
        late = threading.Timer(CLOSING_S, self._end_late, (text, code))
        late.daemon = True
        late.start()
        with suppress(RuntimeError):  # the coordination service is gone
            self.store.key_value_set(f"trm/ending/{self.index}", "-", True)
            self.store.key_value_set(f"trm/failed/{self.index}", json.dumps({"code": code, "text": text}))

    def leave(self, error: BaseException) -> None:
        """End this process because of an error, whatever its main thread waits for, after informing the others.

        A single process is ended only if the command owns it; otherwise the caller raises the error.
        """
        self.fail(error)
        if self.store is not None:
            self._end(exit_code_of(error))
        elif self.own_process:
            sys.stdout.flush()
            sys.stderr.flush()
            end_now(exit_code_of(error))

    def _end_late(self, text: str, code: int) -> None:
        """End a failed process that still waits for others, to finish a checkpoint."""
        self.say(text)
        self._end(code)

    def _watch(self) -> None:
        """Send heartbeats, and end this process when another has failed or died."""
        beats = unheard = 0
        while unheard < UNHEARD_BEATS and not self._closed.wait(BEAT_S):
            beats += 1
            try:
                self._beat(beats)
                unheard = 0
            except RuntimeError:
                unheard += 1  # the service is unreachable; if that lasts, jax ends the process

    def _beat(self, beats: int) -> None:
        """Send one heartbeat, and check the others."""
        assert self.store is not None
        self.store.key_value_set(f"trm/alive/{self.index}", str(beats), True)
        for index, said in self._below("failed").items():
            failure = json.loads(said)
            self._end_for(f"{self.name(index)} failed: {failure['text']}", int(failure["code"]))
        if (dead := self._dead()) is not None:
            self._end_for(f"{self.name(dead)} has shown no sign of life for {SILENT_S:.0f} s", Exit.STALLED)

    def _dead(self) -> int | None:
        """Return a process whose heartbeat has timed out, or None."""
        now, beats = time.monotonic(), self._below("alive")
        for index in range(self.count):
            said = beats.get(index, "")
            if self._seen.get(index, ("-", 0.0))[0] != said:
                self._seen[index] = said, now
        return next((index for index, (_, at) in self._seen.items() if now - at > SILENT_S), None)

    def _end_for(self, text: str, code: int) -> None:
        """End this process, whatever its main thread waits for."""
        assert self.store is not None
        if self._closed.is_set():
            return
        telling = threading.Thread(
            target=self.last_words,
            args=(f"{text}; the same commands resume from the last checkpoint",),
            daemon=True,
        )
        self.store.key_value_set(f"trm/ending/{self.index}", "-", True)
        self.say(f"{text}; process {self.index} ends too")
        telling.start()
        telling.join(LAST_WORDS_S)
        self._end(code)

    def _end(self, code: int) -> None:
        """End this process without jax's shutdown barrier, which waits for all. Process 0 ends last, because jax ends
        the others at once when their coordination service is gone.
        """
        assert self.store is not None
        sys.stdout.flush()
        sys.stderr.flush()
        with suppress(RuntimeError):
            self.store.key_value_set(f"trm/gone/{self.index}", "-", True)
            if self.is_coordinator:
                self._wait_until_gone()
        end_now(code)

    def _wait_until_gone(self) -> None:
        """Wait for the other processes to end, except dead ones."""
        begun = seen = time.monotonic()
        beats = self._below("alive")
        while time.monotonic() - begun < GONE_S:
            left = set(range(self.count)) - set(self._below("gone"))
            if time.monotonic() - seen > SILENT_BEATS * BEAT_S:
                before, beats, seen = beats, self._below("alive"), time.monotonic()
                ending = self._below("ending")
                left = {i for i in left if i in ending or before.get(i) != beats.get(i)}
            time.sleep(POLL_S)
            if not left:
                return

    def _below(self, folder: str) -> dict[int, str]:
        """Return the message of each process under a key."""
        assert self.store is not None
        found = self.store.key_value_dir_get(f"trm/{folder}/")
        return {int(key.rpartition("/")[2]): said for key, said in found}


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


def _said_of(error: BaseException) -> str:
    """Return the text of an error for the other processes."""
    code = exit_code_of(error)
    if isinstance(error, SystemExit | KeyboardInterrupt) and code in (Exit.INTERRUPTED, Exit.TERMINATED):
        return "Ctrl-C" if code == Exit.INTERRUPTED else "SIGTERM"
    return str(error) or type(error).__name__


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of a process that raises this error."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else Exit.DONE if error.code is None else Exit.FOUND
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED
    expected = (LabError, OSError)
    return getattr(error, "exit_code", Exit.ERROR) if isinstance(error, expected) else 1


def lost(hosts: Hosts, error: BaseException, what: str, hint: str) -> HostError:
    """Return an error that names the processes without a heartbeat.

    Args:
        hosts: All processes.
        error: Error from jax.
        what: Name of the work, for the message.
        hint: How to continue.
    """
    gone = ", ".join(hosts.name(index) for index in hosts.silent())
    said = (str(error).splitlines() or [type(error).__name__])[0]
    return HostError(
        f"{what}: the processes could not finish a step together ({said})"
        f"{f'; no sign of life of {gone}' if gone else ''}; {hint}",
        Exit.STALLED,
    )


@contextmanager
def name_lost_processes(hosts: Hosts, what: str, hint: str) -> Generator[None, None, None]:
    """Context in which a jax error is replaced by an error that names the lost processes; see `lost`."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if hosts.count == 1:
            raise
        raise lost(hosts, error, what, hint) from error
