"""Signals: SIGTERM ends a command as Ctrl-C does, by an exception, so that its workers and leases end with it.

Python handles a signal only between its own instructions: during a jax program or a query, perhaps minutes later. So
commands that run jax programs or queries use `ending_at_once`, and training has a handler of its own (`handled`).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

SHOW_CURSOR = b"\x1b[?25h\r\n"
STOPS = (signal.SIGTERM, signal.SIGINT)


def exit_on_sigterm(code: int) -> None:
    """Let SIGTERM end the command with an exit code; no effect outside the main thread."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(code))


def keep_ctrl_c() -> None:
    """Import polars, then install the handler of SIGINT again; no effect outside the main thread.

    On import, polars (2.1.0) replaces the handler, and its own handler restarts system calls: afterwards Ctrl-C ends no
    wait for a lock, a thread or a process, and a handler such as `SIG_DFL` is gone. A later handler stays.
    """
    import polars  # noqa: F401  # pyright: ignore[reportUnusedImport]

    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is threading.main_thread() and usual is not None:
        signal.signal(signal.SIGINT, usual)


@contextmanager
def handled(
    handler: Callable[[int, FrameType | None], Any] | signal.Handlers, *numbers: signal.Signals
) -> Generator[None, None, None]:
    """Install a signal handler within the block; no effect outside the main thread, which alone receives signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    keep_ctrl_c()
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)


@contextmanager
def ending_at_once() -> Generator[None, None, None]:
    """Within the block SIGTERM and Ctrl-C end the process at once; results on disk are complete at every moment."""
    with handled(signal.SIG_DFL, *STOPS):
        yield


def end_now(code: int) -> NoReturn:
    """Exit at once, without waiting for threads; restore the terminal cursor, which a progress bar hides."""
    if os.isatty(2):
        with suppress(OSError):
            os.write(2, SHOW_CURSOR)
    os._exit(code)
