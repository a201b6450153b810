"""Says on a bucket that a machine is at work on a dataset or a run, so that another one stays away.

A bucket has no locks that end with their holder. A claim is an object that its holder touches every few seconds; who
finds a claim watches it: if it moves, the holder lives, and the second one stops; if it stands still for the lease,
its holder is dead, and the claim is taken over. Nobody's clock is compared with another's. A machine takes over its
own claims at once, for the local lock says that the process that made them is gone; and those of a dead process that
this one would see if it lived.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from trm_data.errors import BucketError, BusyError
from trm_data.storage.atomic import parse_json
from trm_data.storage.machine import host_identity, process_start
from trm_data.storage.objects import Bucket

BEAT_S = 5.0
LEASE_S = 30.0
"""Stands still for so long: dead."""
LOOK_S = 1.0

LOG = logging.getLogger(__name__)


class Claim:
    """A claim that is held.

    Args:
        bucket: Where it lies.
        path: Its object.
        generation: Of the object that we wrote.
    """

    def __init__(self, bucket: Bucket, path: str, generation: str) -> None:
        self._bucket, self._path, self._generation = bucket, path, generation

    def check(self) -> None:
        """Nobody took it over.

        Raises:
            BusyError: Somebody did, because this process stood still for longer than the lease.
        """
        there = self._bucket.stat(self._path)
        if there is None or there.generation != self._generation:
            raise BusyError(
                f"{self._bucket.where(self._path)}: another machine took over, because this one was not heard of for "
                f"{LEASE_S:.0f} s; the same command goes on"
            )

    def beat_until(self, ended: threading.Event) -> None:
        """Give signs of life until the work ends or the claim is lost."""
        count = 0
        while not ended.wait(BEAT_S):
            count += 1
            with suppress(BucketError):  # the next beat, or `check`, finds out
                if not self._bucket.touch(self._path, self._generation, str(count)):
                    return

    def release(self) -> None:
        """Give it back; where that fails it is said, and the claim ends with its lease."""
        try:
            self._bucket.delete(self._path, self._generation)
        except BucketError as error:
            LOG.warning(
                "%s: the claim could not be given back, so other machines wait for %.0f s: %s",
                self._bucket.where(self._path),
                LEASE_S,
                error,
            )


@contextmanager
def claimed(bucket: Bucket, path: str, machine: Path, what: str) -> Generator[Claim, None, None]:
    """Hold a claim while working.

    Args:
        bucket: Where it lies.
        path: Its object.
        machine: Local file that holds this machine's identity; written if it is not there. Whoever calls this
            holds the local lock of the same work.
        what: What is worked on, for the message.

    Raises:
        BusyError: Another machine is at work.
    """
    claim = Claim(bucket, path, _acquire(bucket, path, _identity(machine), what))
    ended = threading.Event()
    beats = threading.Thread(target=claim.beat_until, args=(ended,), name="claim", daemon=True)
    beats.start()
    try:
        yield claim
    finally:
        ended.set()
        beats.join()
        claim.release()


def _acquire(bucket: Bucket, path: str, machine: str, what: str) -> str:
    """Write the claim, when nobody who lives holds it; returns its generation."""
    began = datetime.now(UTC).isoformat(timespec="seconds")
    process = os.getpid()
    ours = {"machine": machine, "host": socket.gethostname(), "process": process, "began": began}
    ours |= {"sees": host_identity(), "process_start": process_start(process)}
    content = json.dumps({**ours, "token": uuid.uuid4().hex}).encode()
    seen, still_s, looked = ("", ""), 0.0, time.monotonic()
    while True:
        created = bucket.create(path, content)
        there = bucket.stat(path)
        if there is None:
            continue
        found = bucket.read(path)
        if created and found == content:  # else this process stood still, and another took over
            return there.generation
        holder = _holder(found)
        mark, now = (there.generation, there.metageneration), time.monotonic()
        # Of a look that took long, for the bucket was out of reach, little counts: the holder could not move it either.
        still_s, looked = still_s + min(now - looked, 2 * LOOK_S), now
        if _is_ours(holder, machine) or _is_dead(holder):
            bucket.delete(path, there.generation)
        elif mark != seen:
            if seen != ("", ""):
                raise BusyError(
                    f"{bucket.where(path)}: another machine is at work on {what} ({holder.get('host', '?')}, "
                    f"process {holder.get('process', '?')}, since {holder.get('began', '?')}); wait for it"
                )
            seen, still_s = mark, 0.0
        elif still_s > LEASE_S:
            bucket.delete(path, there.generation)
        else:
            time.sleep(LOOK_S)


def _holder(content: bytes | None) -> dict[str, object]:
    """Who wrote a claim; nothing where it cannot be read."""
    try:
        value = parse_json(content or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _is_ours(holder: dict[str, object], machine: str) -> bool:
    """Whether the holder was on this machine: the same folder, which machines may share, and the same host."""
    return holder.get("machine") == machine and holder.get("sees", host_identity()) == host_identity()


def _is_dead(holder: dict[str, object]) -> bool:
    """Whether the holder is a process that this one would see, and does not; False where that cannot be known."""
    sees, process, began = holder.get("sees"), holder.get("process"), holder.get("process_start")
    if not sees or sees != host_identity() or not isinstance(process, int) or not began:
        return False
    return process_start(process) != began


def _identity(file: Path) -> str:
    """A name for this machine's folder for the root, drawn once."""
    with suppress(FileNotFoundError):
        if found := file.read_text().strip():
            return found
    drawn = uuid.uuid4().hex
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".tmp-{file.name}-{drawn}")
    temporary.write_text(drawn)
    temporary.replace(file)
    return drawn
