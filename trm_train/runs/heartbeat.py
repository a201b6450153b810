"""What each of several processes says of itself in a run's folder: `heartbeats/worker-<i>.json`."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from trm_data.storage.atomic import json_bytes, parse_json, with_digest
from trm_data.storage.store import Folder

HEARTBEATS = "heartbeats"
NAME = re.compile(r"worker-[0-9]{1,6}\.json")


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """One process of a run, as it was when it said so.

    Attributes:
        worker: Its number.
        workers: How many there are.
        host: Machine.
        process: Its process there.
        step: Optimizer steps whose metrics have arrived at it.
        heartbeat: When this was written (UTC).
        started_at: When this start began (UTC).
        data_wait: Share of the time of the steps since the heartbeat before that it waited for batches (0 to 1). The
            steps of all take as long as those of the slowest; one that is slow at loading is found by this.
    """

    worker: int
    workers: int
    host: str
    process: int
    step: int
    heartbeat: str
    started_at: str
    data_wait: float


class Heart:
    """Says now and then that this process of a run lives.

    Attributes:
        workers: How many processes there are.

    Args:
        folder: The run's folder.
        worker: This process.
        workers: How many there are.
        step: Step the run goes on from.
    """

    def __init__(self, folder: Folder, worker: int, workers: int, step: int) -> None:
        self.workers = workers
        self._folder, self._worker, self._step = folder, worker, step
        self._started_at = _now()
        self._seconds = self._waited = 0.0

    def step(self, step: int, paced: dict[str, Any]) -> None:
        """A step is done; `paced` are its columns from `Pace`."""
        self._step = step
        self._seconds += paced["step_s"]
        self._waited += paced["data_wait_s"]

    def prepared(self) -> Callable[[], None]:
        """What writes the heartbeat of this moment; later steps do not change what it writes."""
        beat = Heartbeat(
            worker=self._worker,
            workers=self.workers,
            host=socket.gethostname(),
            process=os.getpid(),
            step=self._step,
            heartbeat=_now(),
            started_at=self._started_at,
            data_wait=round(min(self._waited / self._seconds, 1.0), 4) if self._seconds else 0.0,
        )
        self._seconds = self._waited = 0.0
        name, content = f"{HEARTBEATS}/worker-{self._worker}.json", json_bytes(with_digest(asdict(beat)))
        return lambda: self._folder.write(name, content)


def read_heartbeats(folder: Folder) -> list[Heartbeat]:
    """What the processes of a run said last, by number; those that cannot be read are left out."""
    inside = folder.within(HEARTBEATS)
    names = [name for name in inside.names("*.json") if NAME.fullmatch(name)]
    with ThreadPoolExecutor(folder.store.at_a_time) as pool:
        found = [beat for content in pool.map(inside.read, names) if (beat := _parsed(content)) is not None]
    return sorted(found, key=lambda beat: beat.worker)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _parsed(content: bytes | None) -> Heartbeat | None:
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
