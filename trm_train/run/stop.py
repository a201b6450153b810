"""How a run is asked to stop: SIGTERM (a pre-emption) and Ctrl-C end it after the step that is under way.

So does a run that is slower than the user asks for.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from trm_data.command import Exit


@dataclass
class StopRequest:
    """Whether the run was asked to stop.

    Attributes:
        signal: Number of the signal that asked; 0 while none has.
        too_slow: It is slower than the user asks for.
    """

    signal: int = 0
    too_slow: bool = False

    @property
    def requested(self) -> bool:
        """Something has asked."""
        return self.signal != 0 or self.too_slow

    @property
    def exit_code(self) -> int:
        """How a process ends that was asked so."""
        return 128 + self.signal if self.signal else Exit.STALLED if self.too_slow else Exit.DONE


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
