"""Watchdog thread: reports a run that makes no progress, and later ends its process.

Python cannot interrupt a thread that waits inside a library for a device, a disk or another host. So the watchdog ends
the process without its cooperation. Everything up to the last checkpoint is safe, and the same command resumes from
there.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

CLOSE_S = 1.0
"""Timeout for the thread in `close`, which may be printing a report (s)."""
LONGEST_STEPS = 20.0
"""A run is stalled after this multiple of its longest step, or after the user's limit if that is longer."""
REMIND_S = 30.0
"""Time to the first report of a long task (s); each later interval is twice as long."""


@dataclass(frozen=True)
class Task:
    """Task with its own time limit, which replaces the limit between two heartbeats.

    Attributes:
        what: Name of the task in messages.
        limit_s: Longest time (s); 0 for no limit.
        option: Option that sets the limit.
    """

    what: str
    limit_s: float
    option: str


class Watchdog:
    """Watchdog of a run's progress.

    Args:
        limit_s: Time without a heartbeat before a stall is reported (s); after twice this time the process is ended.
            0 watches only tasks.
        say: Reports a stall; called in its own thread, because it may hang too.
        end: Ends the process and gives the reason; must not wait for anything that may hang.
    """

    def __init__(self, limit_s: float, say: Callable[[str], None], end: Callable[[str], None]) -> None:
        self._least, self._say, self._end = limit_s, say, end
        self._longest = 0.0
        self._beats = 0
        self._task: Task | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def beat(self, step_s: float = 0.0) -> None:
        """Record progress; the first call starts the thread.

        Args:
            step_s: Duration of the last step (s).
        """
        self._longest = max(self._longest, step_s)
        self._beats += 1
        self._start()

    @contextmanager
    def task(self, what: str, limit_s: float, option: str) -> Generator[None, None, None]:
        """Context in which only the task's time limit applies; see `Task`."""
        self._task = Task(what, limit_s, option)
        self._start()
        try:
            yield
        finally:
            self._task = None
            self._beats += 1

    def close(self) -> None:
        """Stop the thread."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _start(self) -> None:
        if self._thread is None and (self._least or self._task):
            self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        seen, still_s, remind_s = (self._beats, self._task), 0.0, 0.0
        before = time.monotonic()
        while not self._closed.wait(tick := self._tick(seen[1])):
            now = time.monotonic()
            # A stopped process or a sleeping machine is not a stall, so each tick counts at most twice its length.
            still_s, before = still_s + min(now - before, 2 * tick), now
            if seen != (self._beats, self._task):
                seen, still_s, remind_s = (self._beats, self._task), 0.0, 0.0
            task = seen[1]
            first_s, end_s = self._limits(task)
            if still_s >= end_s:
                self._end(_reason(task, still_s))
                return
            if still_s >= max(first_s, remind_s):
                remind_s = 2 * still_s if task else math.inf
                threading.Thread(
                    target=self._say, args=(_warning(task, still_s, end_s),), daemon=True
                ).start()

    def _tick(self, task: Task | None) -> float:
        return min(self._limits(task)[0] / 4, 1.0)

    def _limits(self, task: Task | None) -> tuple[float, float]:
        """Return the times without progress after which to report, and to end the process (s)."""
        if task is not None:
            end_s = task.limit_s or math.inf
            return min(REMIND_S, end_s / 4), end_s
        if not self._least:
            return math.inf, math.inf
        limit_s = max(self._least, LONGEST_STEPS * self._longest)
        return limit_s, 2 * limit_s


def _warning(task: Task | None, still_s: float, end_s: float) -> str:
    if task is not None:
        return f"{task.what} for {still_s:,.0f} s"
    return (
        f"no step for {still_s:,.0f} s: a device, the network or the disk does not respond; the run ends after "
        f"{end_s - still_s:,.0f} s more"
    )


def _reason(task: Task | None, still_s: float) -> str:
    if task is not None:
        return f"{task.what} took more than {still_s:,.0f} s; {task.option} 0 sets no limit"
    return f"no step for {still_s:,.0f} s; --execution.stall-s 0 sets no limit"
