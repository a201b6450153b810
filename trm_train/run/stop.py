"""How a run is asked to stop: SIGTERM (a pre-emption) and Ctrl-C end it after the step that is under way."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class StopRequest:
    """Whether the process was asked to stop.

    Attributes:
        signal: Number of the signal that asked; 0 while none has.
    """

    signal: int = 0

    @property
    def requested(self) -> bool:
        """Some signal has asked."""
        return self.signal != 0


@contextmanager
def stop_signals() -> Generator[StopRequest, None, None]:
    """Note the first signal; a second one ends the process at once, as if nobody listened."""
    stop = StopRequest()

    def request(number: int, frame: FrameType | None) -> None:
        stop.signal = number
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)

    before = {number: signal.signal(number, request) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
