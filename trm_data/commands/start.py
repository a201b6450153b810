"""Program start: Ctrl-C during imports ends the program with one line.

This module imports only a few modules of the standard library, because until it runs, Python itself handles Ctrl-C.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from importlib import import_module

INTERRUPTED = 130
"""Value of `trm_data.command.Exit.INTERRUPTED`; its import could itself be interrupted."""


def start(program: str, cli: str) -> None:
    """Import a program and run it.

    Args:
        program: Name of the program, prefix of messages.
        cli: Module with its `main`.
    """
    _open_closed_streams()
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # False if the caller ignores SIGINT
    if ours:
        signal.signal(signal.SIGINT, lambda *_: _end(program))
    main = import_module(cli).main
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


def _open_closed_streams() -> None:
    """Open the null device for closed standard streams; otherwise Python sets them to None, and the next file that is
    opened gets their file descriptor."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:  # another file has this descriptor
                os.close(descriptor)
                descriptor = number
            setattr(sys, name, os.fdopen(descriptor, "w" if number else "r", encoding="utf-8", closefd=False))


def _end(program: str) -> None:
    with suppress(OSError):
        os.write(2, f"{program}: interrupted before it had begun\n".encode())
    os._exit(INTERRUPTED)
