"""Locks and leases: a lock between the processes of a machine, and on a bucket a lease between machines.

A bucket has no locks that end with their holder. A lease is an object (`.building`) that its holder changes every few
seconds. A second machine watches it. If it changes, the holder is alive, and the second machine stops. If it does not
change for `LEASE_S`, the holder is dead, and the lease is taken over. Clocks of different machines
are never compared.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from typing_extensions import override

from trm_data.errors import BucketError, BusyError
from trm_data.storage.atomic import parse_json
from trm_data.storage.store import Folder, Lease

if TYPE_CHECKING:
    from trm_data.storage.gcs import BucketStore

LEASE_FILE = ".building"
"""Object that identifies the writer of a folder."""

BEAT_S = 5.0
LEASE_S = 30.0
"""Lease expiry in seconds: a holder that does not renew for this long counts as dead."""
POLL_S = 1.0

LOG = logging.getLogger(__name__)


@contextmanager
def locked(folder: Folder, busy: str) -> Generator[None, None, None]:
    """Hold the folder's lock on this machine.

    Args:
        folder: Folder of a dataset, of a run, or of a run's results.
        busy: Error message if another process holds the lock.
    """
    locks = folder.store.machine / ".locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / f"{folder.path.replace('/', ',')}.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise BusyError(f"{busy} ({lock.read().strip() or 'its name is not written yet'})") from None
        began = datetime.now(UTC).isoformat(timespec="seconds")
        lock.truncate(0)
        lock.write(f"process {os.getpid()} of {socket.gethostname()}, since {began}\n")
        lock.flush()
        yield


def writing(dataset: Folder) -> AbstractContextManager[None]:
    """Hold a dataset's lock on this machine; a second build of the same name stops with a clear message."""
    return locked(dataset, f"{dataset.name}: another build of this dataset is running; wait for it")


def leased(folder: Folder, what: str = "this dataset") -> AbstractContextManager[Lease]:
    """Keep other machines away as well. The caller holds the lock of `locked`.

    Args:
        folder: Folder to write.
        what: Content of the folder, for the message.
    """
    return folder.store.lease(folder.path, what)


class BucketLease(Lease):
    """A lease on a bucket that this process holds.

    Args:
        bucket: Store of the lease.
        path: Object of the lease.
        generation: Generation of the object that this process wrote.
    """

    def __init__(self, bucket: BucketStore, path: str, generation: str) -> None:
        self._bucket, self._path, self._generation = bucket, path, generation

    @override
    def check(self) -> None:
        there = self._bucket.stat(self._path)
        if there is None or there.generation != self._generation:
            raise BusyError(
                f"{self._bucket.where(self._path)}: another machine took over, because the lease was not renewed for "
                f"{LEASE_S:.0f} s; the same command resumes"
            )

    def renew_until(self, ended: threading.Event) -> None:
        """Send heartbeats until the work ends or the lease is lost."""
        count = 0
        while not ended.wait(BEAT_S):
            count += 1
            with suppress(BucketError):  # the next heartbeat, or `check`, detects a lost lease
                if not self._bucket.touch(self._path, self._generation, str(count)):
                    return

    def release(self) -> None:
        """Release the lease; if that fails, log a warning and let the lease expire."""
        try:
            self._bucket.delete_generation(self._path, self._generation)
        except BucketError as error:
            LOG.warning(
                "%s: the lease could not be given back, so other machines wait for %.0f s: %s",
                self._bucket.where(self._path),
                LEASE_S,
                error,
            )


@contextmanager
def bucket_lease(bucket: BucketStore, path: str, what: str) -> Generator[Lease, None, None]:
    """Hold a lease on a bucket during the `with` block.

    Args:
        bucket: Store of the lease.
        path: Object of the lease.
        what: What the lease protects, for the message.
    """
    lease = BucketLease(bucket, path, _acquire(bucket, path, what))
    ended = threading.Event()
    signs = threading.Thread(target=lease.renew_until, args=(ended,), name="lease", daemon=True)
    signs.start()
    try:
        yield lease
    finally:
        ended.set()
        signs.join()
        lease.release()


def _acquire(bucket: BucketStore, path: str, what: str) -> str:
    """Write the lease once it has no live holder; return its generation."""
    began = datetime.now(UTC).isoformat(timespec="seconds")
    ours = {"host": socket.gethostname(), "process": os.getpid(), "began": began, "token": uuid.uuid4().hex}
    content = json.dumps(ours).encode()
    seen, unchanged_s, looked = ("", ""), 0.0, time.monotonic()
    while True:
        created = bucket.create(path, content)
        there = bucket.stat(path)
        if there is None:
            continue
        found = bucket.read(path)
        if created and found == content:  # otherwise this process was suspended, and another took over
            return there.generation
        holder = _holder(found)
        mark, now = (there.generation, there.changes), time.monotonic()
        # A poll that took long counts little: the holder could not renew its lease either.
        unchanged_s, looked = unchanged_s + min(now - looked, 2 * POLL_S), now
        if mark != seen:
            if seen != ("", ""):
                raise BusyError(
                    f"{bucket.where(path)}: another machine is working on {what} ({holder.get('host', '?')}, "
                    f"process {holder.get('process', '?')}, since {holder.get('began', '?')}); wait for it"
                )
            seen, unchanged_s = mark, 0.0
        elif unchanged_s > LEASE_S:
            bucket.delete_generation(path, there.generation)
        else:
            time.sleep(POLL_S)


def _holder(content: bytes | None) -> dict[str, object]:
    """Return who wrote a lease; an empty dict if it is unreadable."""
    try:
        value = parse_json(content or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
