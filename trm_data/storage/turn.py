"""The right to write a folder: one process of a machine at a time, and on a bucket one machine.

Neighbours: `claim` is how machines keep each other away; builds, syncs, removals and training runs take a turn.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime

from trm_data.errors import BusyError
from trm_data.storage.store import Folder, Turn


@contextmanager
def locked(folder: Folder, busy: str, *, shared: bool = False) -> Generator[None, None, None]:
    """Hold the folder's lock on this machine.

    Args:
        folder: A dataset's, a run's, or that of its results.
        busy: What to say where another process holds it.
        shared: Others may share it; only who wants it alone is kept away.

    Raises:
        BusyError: Another process of this machine holds it.
    """
    locks = folder.store.machine / ".locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / f"{folder.path.replace('/', ',')}.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise BusyError(f"{busy} ({lock.read().strip() or 'who it is was not written yet'})") from None
        began = datetime.now(UTC).isoformat(timespec="seconds")
        lock.truncate(0)
        lock.write(f"process {os.getpid()} of {socket.gethostname()}, since {began}\n")
        lock.flush()
        yield


def writing(dataset: Folder) -> AbstractContextManager[None]:
    """Hold a dataset's lock on this machine; a second build of the same name stops with a clear message."""
    return locked(dataset, f"{dataset.name}: another build of this dataset is running; wait for it")


def turn_to_write(folder: Folder, what: str = "this dataset") -> AbstractContextManager[Turn]:
    """Keep other machines away as well. The lock of `locked` is held.

    Args:
        folder: What is written.
        what: What lies there, for the message.

    Raises:
        BusyError: Another machine is writing it.
    """
    return folder.store.turn(folder.path, what)
