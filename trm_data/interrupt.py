"""Ctrl-C and SIGTERM end a command also where Python does not hear of them.

A signal that comes while a program of jax runs is heard of when that program has ended, which may take minutes; and one
that comes during the callback with which jax watches the garbage collector is lost. Nor does Python end before what
jax computes has. So a thread hears of signals too, and ends the process where the command has not done so itself within
some seconds. Results are whole at every moment: nothing is lost but time.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import NoReturn

from trm_data.command import Exit

GRACE_S = 3.0
"""Time that a command has to end by itself."""
HEARD_S = 0.2
"""Time that the thread has to hear of a signal that has ended the command."""
SHOW_CURSOR = b"\x1b[?25h\r\n"
CODES = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}
WORDS = {
    signal.SIGINT: "interrupted; nothing half-written counts, the same command goes on",
    signal.SIGTERM: "ended by SIGTERM; nothing half-written counts, the same command goes on",
}


class Heard:
    """What a thread hears of signals, until it is closed.

    Args:
        program: Stands before what is said.
        grace_s: Time that the command has to end by itself.
        leave: Called with how the process ends, before it does; may end it.

    Attributes:
        signals: Those that it has heard.
    """

    def __init__(self, program: str, grace_s: float, leave: Callable[[SystemExit], None]) -> None:
        self._program, self._grace_s, self._leave = program, grace_s, leave
        self.signals: list[signal.Signals] = []
        self._closed, self._told = threading.Event(), threading.Event()
        self._heard, self._tell = os.pipe()
        os.set_blocking(self._tell, False)
        self._before = signal.set_wakeup_fd(self._tell, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._listen, name="signals", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hear no more: from here on somebody else does. What came before is in `signals`."""
        if self._closed.is_set():
            return
        self._closed.set()
        signal.set_wakeup_fd(self._before)
        os.close(self._tell)
        self._thread.join(HEARD_S)

    def end_if_told(self) -> None:
        """End the process if a signal has ended the command: what jax still computes would be waited for."""
        if not self._closed.is_set() and self._told.wait(HEARD_S):
            _end(self._program, self.signals[0], self._leave)

    def _listen(self) -> None:
        with suppress(OSError):
            while number := os.read(self._heard, 1):
                if (found := signal.Signals(number[0])) not in CODES:
                    continue
                self.signals.append(found)
                self._told.set()
                if not self._closed.wait(self._grace_s):
                    _end(self._program, found, self._leave)
        os.close(self._heard)


@contextmanager
def signals_end(
    program: str, grace_s: float = GRACE_S, leave: Callable[[SystemExit], None] = lambda _: None
) -> Generator[Heard | None, None, None]:
    """Within, a signal ends the process after `grace_s` at the latest; elsewhere than in the main thread, nothing.

    Args:
        program: Stands before what is said.
        grace_s: Time that the command has to end by itself.
        leave: Called with how the process ends, before it does; may end it.

    Yields:
        What hears of signals, to be closed where the command has come so far that it ends otherwise; None where
        nothing does.
    """
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    heard = Heard(program, grace_s, leave)
    try:
        yield heard
    except (KeyboardInterrupt, SystemExit):
        heard.end_if_told()
        raise
    finally:
        heard.close()


def _end(program: str, by: signal.Signals, leave: Callable[[SystemExit], None]) -> None:
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError):
        os.write(2, f"{program}: {WORDS[by]}\n".encode())
    leave(SystemExit(CODES[by]))
    end_now(CODES[by])


def end_now(code: int) -> NoReturn:
    """End this process at once, whatever its threads wait for; a terminal has its cursor back, which a bar hides."""
    if os.isatty(2):
        with suppress(OSError):
            os.write(2, SHOW_CURSOR)
    os._exit(code)
