"""Status of a running run: `status.json`, and `heartbeats/worker-<i>.json` of each process."""

from __future__ import annotations

import re
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
    """A run's `status.json`: how it goes, for whoever watches from elsewhere.

    Attributes:
        state: The state; a running process with an old heartbeat is dead.
        step: Optimizer steps whose metrics are written.
        total_steps: Steps planned.
        examples_per_s: Slots per second between the last two heartbeats with steps between them.
        loss: Mean cross-entropy over slots and cells of the last step (nats); None before the first.
        heartbeat: When this was written (UTC).
        seconds: Training time over all starts, compilation aside (s).
        compile_s: Time to compile at this start (s).
        host: Machine.
        process: Its process.
        started_at: When this start began (UTC).
        reason: Why it failed.
        exact_accuracy: Best of the validations so far (0 to 1); None before the first.
        optimal_share: Largest share of answers as good as the label in the validations so far (0 to 1); None of puzzles
            with one right answer.
        workers: Processes that train it together; each has a heartbeat of its own.
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
    """One process of a run, as it was when it wrote this.

    Attributes:
        worker: Its number.
        workers: How many there are.
        host: Machine.
        process: Its process there.
        step: Optimizer steps whose metrics have arrived at it.
        heartbeat: When this was written (UTC).
        started_at: When this start began (UTC).
        data_wait: Share of the time of the steps since the heartbeat before that it waited for batches (0 to 1). The
            steps of all take as long as those of the slowest; a process with slow loading is found by this.
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
    """A `status.json`; that of one process is as it was before there could be several."""
    value = asdict(status)
    if status.workers == 1:
        del value["workers"]
    if status.optimal_share is None:
        del value["optimal_share"]
    return json_bytes(with_digest(value))


def read_status(folder: Folder) -> Status | None:
    """The status of a run; None where there is none, or none that was written so and that this version can read."""
    content = folder.read(STATUS_FILE)
    return None if content is None else _parse_status(content)


@lru_cache(10_000)
def _parse_status(content: bytes) -> Status | None:
    """The status that a `status.json` holds; a root with thousands of runs is asked again and again."""
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


def written_steps(folder: Folder) -> int:
    """The step up to which a run that has ended says that its metrics are written; 0 if it may be running."""
    status = read_status(folder)
    return status.step if status is not None and status.state != "running" else 0


def _is_plain(status: Status) -> bool:
    """Whether every value is of the kind that a table takes."""
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
    """The last heartbeat of each process of a run, by number; heartbeats that cannot be read are left out."""
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
    """The current time (UTC), as logs and status have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
