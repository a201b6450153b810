"""The right to write a dataset: one process of a machine at a time, and on a bucket one machine.

Neighbours: `claim` is how machines keep each other away; builds, syncs and removals take a turn.
"""

from __future__ import annotations

import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from trm_data.errors import BuildError
from trm_data.storage.bucket import Bucket
from trm_data.storage.claim import Claim, claimed
from trm_data.storage.datasets import CLAIM, object_name
from trm_data.storage.root import Layout


@dataclass(frozen=True)
class Turn:
    """The right to write a dataset; `check` it before anything that another machine may have written is touched."""

    claim: Claim | None

    def check(self) -> None:
        """Nobody took it away.

        Raises:
            BuildError: Another machine took over.
        """
        if self.claim is not None:
            self.claim.check()


@contextmanager
def writing(layout: Layout, name: str) -> Generator[None, None, None]:
    """Hold the dataset's lock on this machine; a second build of the same name stops with a clear message."""
    layout.locks.mkdir(parents=True, exist_ok=True)
    with (layout.locks / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BuildError(f"{name}: another build of this dataset is running; wait for it") from None
        yield


@contextmanager
def turn_to_write(layout: Layout, name: str) -> Generator[Turn, None, None]:
    """Keep other machines away as well, where the root is on a bucket. The lock of `writing` is held.

    Raises:
        BuildError: Another machine is writing this dataset.
    """
    if not layout.url:
        yield Turn(None)
        return
    with claimed(Bucket(layout.url), object_name(name, CLAIM), layout.locks / "machine") as claim:
        yield Turn(claim)
