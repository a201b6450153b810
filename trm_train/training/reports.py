"""Writes reports of a run beside its steps: soon after the first step, later about once a minute.

A thread of its own writes; at most one report is on its way, and who asks for the next hears how it has ended.
Neighbours: what is in a report, `observe` says for process 0 and `follow` for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime

from trm_data.errors import BucketError

EVERY_S = 60.0
FIRST_S = 5.0
"""The first report after the first step comes so early, each later one after twice the time, up to `EVERY_S`."""


class Reports:
    """The reports of one start.

    Attributes:
        lost: Why the bucket is taken to be away; None while it is not. Nothing is due then.
    """

    def __init__(self) -> None:
        self.lost: BucketError | None = None
        self._after = min(FIRST_S, EVERY_S)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="reports")
        self._writing: Future[None] | None = None

    def due(self, seconds: float) -> bool:
        """Whether the next one is to be written so long after the last."""
        return self._writing is None and self.lost is None and seconds >= self._after

    def begin(self, write: Callable[[], None]) -> None:
        """Have one written beside the steps."""
        self._after = min(2 * self._after, EVERY_S)
        self._writing = self._writer.submit(write)

    def hear(self) -> BucketError | None:
        """How the one on its way has ended, if it has: the error where the bucket did not take it."""
        if self._writing is None or not self._writing.done():
            return None
        try:
            self.wait()
        except BucketError as error:
            self.lost = error
            return error
        return None

    def wait(self) -> None:
        """Wait for the one on its way; its errors are raised here."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def close(self) -> None:
        """End the thread; what was being written is written."""
        self._writer.shutdown(wait=True)


def now() -> str:
    """The time as logs and status have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
