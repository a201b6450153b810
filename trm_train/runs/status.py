"""Status of a running run: `status.json`, and `heartbeats/worker-<i>.json` of each process."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, get_args

from trm_data.storage.atomic import json_bytes, parse_json, with_digest
from trm_data.storage.store import Folder

STATUS_FILE = "status.json"
HEARTBEATS = "heartbeats"
HEARTBEAT_NAME = re.compile(r"worker-[0-9]{1,6}\.json")

State = Literal["running", "finished", "stopped", "failed"]


@dataclass(frozen=True, kw_only=True)
class Status:
    """A run's `status.json`: its progress, for remote monitoring.

    Attributes:
        state: The state; a running process with an old heartbeat is dead.
        step: Number of optimizer steps whose metrics are written.
        total_steps: Number of planned steps.
        examples_per_s: Slots per second between the last two heartbeats with steps between them.
        loss: Mean cross-entropy over slots and cells of the last step (nats); None before the first.
        heartbeat: Time of this status (UTC).
        seconds: Training time over all starts, without compilation (s).
        compile_s: Compilation time of this start (s).
        host: Name of the machine.
        process: Process id.
        started_at: Time of this start (UTC).
        reason: Reason for a failure.
        exact_accuracy: Best exact accuracy of the validations so far (0 to 1); None before the first.
        optimal_share: Largest share of answers as good as the label in the validations so far (0 to 1); None for
            puzzles with one correct answer.
        workers: Number of processes that train it; each writes its own heartbeat.
    """

    state: State
    step: int
    total_steps: int
    examples_per_s: float
    loss: float | None
    heartbeat: str
    seconds: float
    compile_s: float
    host: str
    process: int
    started_at: str
    reason: str = ""
    exact_accuracy: float | None = None
    optimal_share: float | None = None
    workers: int = 1


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """State of one process of a run at the time of its heartbeat.

    Attributes:
        worker: Number of the process.
        workers: Number of processes.
        host: Name of the machine.
        process: Process id.
        step: Number of optimizer steps whose metrics have arrived in the process.
        heartbeat: Time of this heartbeat (UTC).
        started_at: Time of this start (UTC).
        data_wait: Share of step time spent waiting for batches since the previous heartbeat (0 to 1). All processes
            step at the speed of the slowest; this number shows which one loads data slowly.
    """

    worker: int
    workers: int
    host: str
    process: int
    step: int
    heartbeat: str
    started_at: str
    data_wait: float


def status_bytes(status: Status) -> bytes:
    """Return the content of `status.json`; for one process, in the format from before several were possible."""
    value = asdict(status)
    if status.workers == 1:
        del value["workers"]
    if status.optimal_share is None:
        del value["optimal_share"]
    return json_bytes(with_digest(value))


def read_status(folder: Folder) -> Status | None:
    """Return the status of a run; None if it is missing, damaged, or from an unknown version."""
    content = folder.read(STATUS_FILE)
    return None if content is None else _parse_status(content)


@lru_cache(10_000)
def _parse_status(content: bytes) -> Status | None:
    """Parse a `status.json`. Cached, because a root with thousands of runs is read repeatedly."""
    try:
        value = parse_json(content)
        if "digest" in value and with_digest(value) != value:
            return None
        value.pop("digest", None)
        status = Status(**value)
        if datetime.fromisoformat(status.heartbeat).tzinfo is None:
            return None
    except (ValueError, TypeError, AttributeError):
        return None
    return status if _is_plain(status) else None


def is_dead(status: Status) -> bool:
    """Return whether the process of a run that says it is running has ended; False on another machine."""
    return status.state == "running" and status.host == socket.gethostname() and has_ended(status.process)


def has_ended(process: int) -> bool:
    """Return whether a process of this machine has ended."""
    if process < 1:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return False


def written_steps(folder: Folder) -> int:
    """Return the step up to which an ended run has written its metrics; 0 if it may be running."""
    status = read_status(folder)
    return status.step if status is not None and status.state != "running" else 0


def _is_plain(status: Status) -> bool:
    """Return whether every value has the type and range that a table column requires."""
    whole = (status.step, status.total_steps, status.process, status.workers)
    numbers = (
        status.examples_per_s,
        status.seconds,
        status.compile_s,
        0.0 if status.loss is None else status.loss,
        0.0 if status.exact_accuracy is None else status.exact_accuracy,
        0.0 if status.optimal_share is None else status.optimal_share,
    )
    return (
        status.state in get_args(State)
        and all(type(value) is int and 0 <= value < 2**63 for value in whole)
        and all(type(value) in (int, float) for value in numbers)
    )


def write_heartbeat(folder: Folder, beat: Heartbeat) -> None:
    """Write the heartbeat of a process."""
    folder.write(f"{HEARTBEATS}/worker-{beat.worker}.json", json_bytes(with_digest(asdict(beat))))


def read_heartbeats(folder: Folder) -> list[Heartbeat]:
    """Return the last heartbeat of each process of a run, by number; unreadable heartbeats are left out."""
    inside = folder.within(HEARTBEATS)
    names = [name for name in inside.names("*.json") if HEARTBEAT_NAME.fullmatch(name)]
    found = map(_heartbeat, folder.store.each(inside.read, names))
    return sorted((beat for beat in found if beat is not None), key=lambda beat: beat.worker)


def _heartbeat(content: bytes | None) -> Heartbeat | None:
    if content is None:
        return None
    try:
        value = parse_json(content)
        if with_digest(value) != value:
            return None
        value.pop("digest")
        beat = Heartbeat(**value)
        if datetime.fromisoformat(beat.heartbeat).tzinfo is None:
            return None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    whole = (beat.worker, beat.workers, beat.process, beat.step)
    plain = all(type(number) is int for number in whole) and type(beat.data_wait) in (int, float)
    return beat if plain and type(beat.host) is str else None


def now() -> str:
    """Return the current time (UTC) in the format of logs and status."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
