"""A thread that says when a run stands still, and ends the process when it goes on doing so.

Python cannot interrupt a thread that waits inside a library for a device, a disk or another host. So that nobody pays
for machines that do nothing, the process ends without asking that thread; everything up to the last checkpoint is
safe, and the same command goes on from there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

CLOSE_S = 1.0
"""Closing waits so long for the thread, which may be telling others."""
LONGEST_STEPS = 20.0
"""A run stands still after so many times its longest step, or after what the user asks for, whichever is later."""


class Watchdog:
    """Watches that something is done every so often.

    Args:
        limit_s: Seconds without a beat that are said; after twice the time the run is ended. 0 watches nothing.
        say: Told once when a run stands still, with the seconds; in a thread of its own.
        end: Ends the process, with the seconds; waits for nothing.
    """

    def __init__(self, limit_s: float, say: Callable[[float], None], end: Callable[[float], None]) -> None:
        self._least, self._say, self._end = limit_s, say, end
        self._longest = 0.0
        self._beats = self._pauses = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def beat(self, step_s: float = 0.0) -> None:
        """Something was done; the first one begins the watch.

        Args:
            step_s: How long a step took, if one was done.
        """
        self._longest = max(self._longest, step_s)
        self._beats += 1
        if self._least and self._beats == 1:
            self._thread.start()

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """What goes on inside takes as long as it takes, and has time-outs of its own: a checkpoint."""
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            self.beat()

    def close(self) -> None:
        """Watch no more."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def _watch(self) -> None:
        tick = min(self._least / 4, 5.0)
        still, said, seen = 0.0, False, self._beats
        before = time.monotonic()
        while not self._closed.wait(tick):
            now = time.monotonic()
            # A process that was stopped, or a machine that slept, has not stood still all that time.
            still, before = still + min(now - before, 2 * tick), now
            if self._beats != seen or self._pauses:
                still, said, seen = 0.0, False, self._beats
            limit = max(self._least, LONGEST_STEPS * self._longest)
            if still >= limit and not said:
                said = True
                # What tells others may hang as well, and must not keep this thread from ending the run.
                threading.Thread(target=self._say, args=(still,), daemon=True).start()
            if still >= 2 * limit:
                self._end(still)
                return
