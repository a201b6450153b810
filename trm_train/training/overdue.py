"""Watches from a thread that something which may wait for ever comes to its end: a save.

It says now and then that it takes long. It ends it where its time is over, where the bucket has not answered for as
long as requests are patient, which libraries that write there by themselves may find out only much later, and where
another process has given up, for whose part the libraries of this one would wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from trm_data.command import Exit
from trm_data.errors import BucketError

SAID_S = 30.0
"""It is said after so long, and again each time that it has taken twice as long as said before."""
ASK_S = 10.0
"""Between two questions whether the bucket answers."""
CLOSE_S = 1.0
"""A thread that asks a silent bucket is not waited for longer."""
GRACE_S = 10.0
"""Where another process has given up, this one has so long to hear of it in the way that it usually does."""


class Overdue:
    """A context; what goes on inside is watched.

    Args:
        what: It is, for a person.
        limit_s: Seconds that it may take; 0 is for ever.
        say: Tells a person.
        ask: Asks the bucket for something small, patiently.
        told: Why another process has given up, and how it ends; None while none has.
        end: Ends the process, with the reason and the code; waits for nothing inside.
    """

    def __init__(
        self,
        *,
        what: str,
        limit_s: float,
        say: Callable[[str], object],
        ask: Callable[[], object],
        told: Callable[[], tuple[str, Exit] | None],
        end: Callable[[str, Exit], None],
    ) -> None:
        self._what, self._limit_s, self._say = what, limit_s, say
        self._ask, self._told, self._end = ask, told, end
        self._over = threading.Event()
        self._away = ""
        self._threads = [
            threading.Thread(target=self._watch, name="overdue", daemon=True),
            threading.Thread(target=self._ask_now_and_then, name="asking", daemon=True),
        ]

    def __enter__(self) -> None:
        """Watch from here on."""
        for thread in self._threads:
            thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Watch no more."""
        self._over.set()
        for thread in self._threads:
            thread.join(CLOSE_S)

    def _ask_now_and_then(self) -> None:
        while not self._over.wait(ASK_S):
            try:
                self._ask()
            except BucketError as error:
                self._away = str(error)
                return

    def _watch(self) -> None:
        said_s = min(SAID_S, self._limit_s / 4) if self._limit_s else SAID_S
        tick = min(said_s / 4, 1.0)
        taken, grace_s, before = 0.0, 0.0, time.monotonic()
        while not self._over.wait(tick):
            now = time.monotonic()
            # A process that was stopped, or a machine that slept, has not been at it all that time.
            passed, before = min(now - before, 2 * tick), now
            taken += passed
            given_up = (self._away, Exit.BUCKET) if self._away else self._told()
            grace_s = grace_s + passed if given_up else 0.0
            if given_up and grace_s >= GRACE_S:
                self._end(*given_up)
                return
            if self._limit_s and taken >= self._limit_s:
                reason = f"not within {taken:,.0f} s; --execution.save-limit-s 0 waits for ever"
                self._end(reason, Exit.STALLED)
                return
            if taken >= said_s:
                # What tells others may hang as well, and must not keep this thread from ending the run.
                text = f"{self._what} for {taken:,.0f} s"
                threading.Thread(target=self._say, args=(text,), daemon=True).start()
                said_s *= 2
