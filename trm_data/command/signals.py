"""Signal handling: ending a command, and forwarding signals to commands with their own handlers.

- `hear_signals`: SIGTERM ends a command as Ctrl-C does, but not during the import of a C library.
- `signals_end`: ends a command even if Python does not handle the signal. Python handles a signal that arrives during a
  jax program only after the program ends, perhaps minutes later. A signal during the callback with which jax watches
  the garbage collector is lost. So a thread also receives signals, and ends the process if the command has not ended
  within some seconds. Results on disk are complete at every moment: only time is lost.
- `interrupting`: calls a function at a signal, from a thread, to interrupt a library that ignores signals.
- `handled`: training, batches and restarts have their own handlers.
- `end_with_parent`: a child process ends with its parent, however the parent ended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

IMPORTING_S = 5.0
"""Maximum delay of a signal during an import (s): interrupting a starting C library may crash the process."""
AGAIN_S = 0.05
"""Delay before a postponed signal is sent again (s)."""
GRACE_S = 3.0
"""Time for a command to end by itself (s)."""
HEARD_S = 0.2
"""Time for the thread to receive a signal that has ended the command (s)."""
SHOW_CURSOR = b"\x1b[?25h\r\n"
WORDS = {
    signal.SIGINT: "interrupted; partial files do not count; the same command resumes",
    signal.SIGTERM: "ended by SIGTERM; partial files do not count; the same command resumes",
}


def hear_signals(terminated: int) -> list[int]:
    """Let SIGTERM end the command as Ctrl-C does, workers included; training has its own handlers.

    Args:
        terminated: Exit code after SIGTERM.

    Returns:
        The list of received signals: an interrupted library may convert the exception to its own error.
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
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # unless the caller ignores it
            signal.signal(signal.SIGINT, interrupt)
    return heard


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether the main thread is importing a module."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _send_again(number: int) -> bool:
    """Send the main thread the signal again after `AGAIN_S`; return False if no thread can start."""
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
def resend_dropped_signals(heard: list[int]) -> Generator[None, None, None]:
    """Resend a signal if Python dropped its exception, as it does in `__del__` or a gc callback."""
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
    """Stop as for SIGTERM when the parent process is gone, however it ended.

    The parent holds the other end of stdin, a pipe without data, as long as it lives.
    """
    threading.Thread(target=_wait_for_end_of_parent, daemon=True).start()


def _wait_for_end_of_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def handled(
    handler: Callable[[int, FrameType | None], Any], *numbers: signal.Signals
) -> Generator[None, None, None]:
    """Install a signal handler within the block; no effect outside the main thread, which alone receives signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)


class _Listener:
    """A thread that calls a function for every signal in `WORDS`, even while a library blocks Python."""

    def __init__(self, call: Callable[[signal.Signals], object]) -> None:
        self._call = call
        self._heard, self._tell = os.pipe()
        os.set_blocking(self._tell, False)
        self._before = signal.set_wakeup_fd(self._tell, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._listen, name="signals", daemon=True)
        self._thread.start()

    def close(self) -> None:
        signal.set_wakeup_fd(self._before)
        os.close(self._tell)
        self._thread.join(HEARD_S)

    def _listen(self) -> None:
        with suppress(OSError):
            while number := os.read(self._heard, 1):
                if (found := signal.Signals(number[0])) in WORDS:
                    self._call(found)
        os.close(self._heard)


@contextmanager
def interrupting(interrupt: Callable[[], object]) -> Generator[None, None, None]:
    """Call a function from a thread at a signal within the block; no effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    listener = _Listener(lambda _: interrupt())
    try:
        yield
    finally:
        listener.close()


class SignalReceiver:
    """Receives signals in a thread, until it is closed.

    Args:
        program: Prefix of messages.
        grace_s: Time that the command has to end by itself (s).
        leave: Called with the exit status before the process ends; may end it.

    Attributes:
        signals: The received signals.
    """

    def __init__(self, program: str, grace_s: float, leave: Callable[[SystemExit], None]) -> None:
        self._program, self._grace_s, self._leave = program, grace_s, leave
        self.signals: list[signal.Signals] = []
        self._closed, self._told = threading.Event(), threading.Event()
        self._listener = _Listener(self._hear)

    def close(self) -> None:
        """Stop receiving signals: another handler takes over. Earlier signals stay in `signals`."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._listener.close()

    def end_if_told(self) -> None:
        """End the process if a signal has ended the command, instead of waiting for computations of jax."""
        if not self._closed.is_set() and self._told.wait(HEARD_S):
            _end(self._program, self.signals[0], self._leave)

    def _hear(self, found: signal.Signals) -> None:
        self.signals.append(found)
        self._told.set()
        if not self._closed.wait(self._grace_s):
            _end(self._program, found, self._leave)


@contextmanager
def signals_end(
    program: str, grace_s: float = GRACE_S, leave: Callable[[SystemExit], None] = lambda _: None
) -> Generator[SignalReceiver | None, None, None]:
    """End the process at most `grace_s` after a signal within the block; no effect outside the main thread.

    Args:
        program: Prefix of messages.
        grace_s: Time that the command has to end by itself (s).
        leave: Called with the exit status before the process ends; may end it.

    Yields:
        The receiver of signals, which the command closes when it takes over; None outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    heard = SignalReceiver(program, grace_s, leave)
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
    leave(SystemExit(128 + by))
    end_now(128 + by)


def end_now(code: int) -> NoReturn:
    """Exit at once, without waiting for threads; restore the terminal cursor, which a progress bar hides."""
    if os.isatty(2):
        with suppress(OSError):
            os.write(2, SHOW_CURSOR)
    os._exit(code)
