"""Signals that end a command: none is lost, and none comes where it would crash the process.

Neighbours: `command` says how a command ends, `trm_data.interrupt` ends one where Python does not hear of a signal.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

IMPORTING_S = 5.0
"""A signal waits so long for an import: a library of C that is torn out of its start may crash the process."""
AGAIN_S = 0.05
"""Time until it is sent again."""


def hear_signals(terminated: int) -> list[int]:
    """Let SIGTERM end what is going on as Ctrl-C does, workers included; training has handlers of its own.

    Args:
        terminated: Exit code of the process that SIGTERM ends.

    Returns:
        The signals that come: a library that is interrupted may make an error of its own of it.
    """
    heard: list[int] = []
    until: list[float] = []

    def is_put_off(number: int, frame: FrameType | None) -> bool:
        heard.append(number)
        until.append(time.monotonic() + IMPORTING_S)
        return _is_importing(frame) and time.monotonic() < until[0] and _send_again(number)

    def terminate(number: int, frame: FrameType | None) -> None:
        if not is_put_off(number, frame):
            sys.exit(terminated)

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not is_put_off(number, frame):
            raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, terminate)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where the caller ignores it
            signal.signal(signal.SIGINT, interrupt)
    return heard


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported where the main thread is."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _send_again(number: int) -> bool:
    """Send the main thread a signal once more, a little later; False where there is no thread for that."""
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(AGAIN_S, signal.pthread_kill, [main, number])
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError:
        return False
    return True


@contextmanager
def nothing_unheard(heard: list[int]) -> Generator[None, None, None]:
    """Send a signal again whose exception Python has dropped, as it does in a `__del__` or a callback of gc."""
    before = sys.unraisablehook

    def dropped(said: sys.UnraisableHookArgs) -> None:
        if heard and isinstance(said.exc_value, (KeyboardInterrupt, SystemExit)) and _send_again(heard[-1]):
            return
        before(said)

    sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = before


def end_with_parent() -> None:
    """Stop as for SIGTERM when the process that started this one is gone, however it ended.

    That holds the other end of the standard input, a pipe on which nothing is sent, as long as it lives.
    """
    threading.Thread(target=_wait_for_end_of_parent, daemon=True).start()


def _wait_for_end_of_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
