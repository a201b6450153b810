"""How a run is asked to stop: SIGTERM (a pre-emption) and Ctrl-C end it after the step that is under way.

So does a run that is slower than the user asks for.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from trm_data.command import Exit
from trm_data.interrupt import Heard


class StoppedError(Exception):
    """What was going on is given up, because the run was asked to stop."""


@dataclass
class StopRequest:
    """Whether the run was asked to stop.

    Attributes:
        signal: Number of the signal that asked; 0 while none has.
        too_slow: It is slower than the user asks for.
        agreed: Where several processes train the run: the exit code of those that were asked, known to all of them
            after the same step, and 0 while there is none; None in a process that is alone.
        ask: Given the exit code that this process wishes, returns the greatest that any does, before it is known.
    """

    signal: int = 0
    too_slow: bool = False
    agreed: int | None = None
    ask: Callable[[int], Any] | None = None
    _asked: Any = None

    @property
    def requested(self) -> bool:
        """Something has asked, and all processes know."""
        return bool(self.wish if self.agreed is None else self.agreed)

    @property
    def exit_code(self) -> int:
        """How a process ends that was asked so."""
        return self.wish if self.agreed is None else self.agreed

    @property
    def wish(self) -> int:
        """How this process was asked to end; 0 while it was not."""
        if self.signal:
            return 128 + self.signal
        return Exit.STALLED if self.too_slow else Exit.DONE

    def take_over(self, heard: Heard | None) -> None:
        """Take over from what has heard of signals so far, so that none is lost in between."""
        if heard is None:
            return
        heard.close()
        self.signal = self.signal or next(iter(heard.signals), 0)

    def agree(self) -> None:
        """Ask the other processes, where there are any; what was asked at the call before is known now.

        All processes call it equally often, so that all know after the same step, or the same batch of a validation.
        """
        if self.ask is None:
            return
        self.agreed, self._asked = 0 if self._asked is None else int(self._asked), self.ask(self.wish)


@contextmanager
def stop_signals() -> Generator[StopRequest, None, None]:
    """Note the first signal; a second one, of either kind, ends the process at once, as if nobody listened."""
    stop = StopRequest()
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # Python lets only the main thread hear signals
        yield stop
        return

    def request(number: int, frame: FrameType | None) -> None:
        stop.signal = stop.signal or number
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, request) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
