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

from trm_data.command import Exit

GRACE_S = 3.0
"""Time that a command has to end by itself."""
HEARD_S = 0.2
"""Time that the thread has to hear of a signal that has ended the command."""
CODES = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}
WORDS = {
    signal.SIGINT: "interrupted; nothing half-written counts, the same command goes on",
    signal.SIGTERM: "ended by SIGTERM; nothing half-written counts, the same command goes on",
}


@contextmanager
def signals_end(
    program: str, grace_s: float = GRACE_S, leave: Callable[[SystemExit], None] = lambda _: None
) -> Generator[None, None, None]:
    """Within, a signal ends the process after `grace_s` at the latest; elsewhere than in the main thread, nothing.

    Args:
        program: Stands before what is said.
        grace_s: Time that the command has to end by itself.
        leave: Called with how the process ends, before it does; may end it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard, tell = os.pipe()
    os.set_blocking(tell, False)
    ended, told = threading.Event(), threading.Event()
    signals: list[signal.Signals] = []

    def listen() -> None:
        with suppress(OSError):
            while number := os.read(heard, 1):
                if (found := signal.Signals(number[0])) not in CODES:
                    continue
                signals.append(found)
                told.set()
                if not ended.wait(grace_s):
                    _end(program, found, leave)

    before = signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    threading.Thread(target=listen, name="signals", daemon=True).start()
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if told.wait(
            HEARD_S
        ):  # by a signal: what jax still computes would be waited for at the end of Python
            _end(program, signals[0], leave)
        raise
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        os.close(tell)


def _end(program: str, by: signal.Signals, leave: Callable[[SystemExit], None]) -> None:
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    with suppress(OSError):
        os.write(2, f"{program}: {WORDS[by]}\n".encode())
    leave(SystemExit(CODES[by]))
    os._exit(CODES[by])
