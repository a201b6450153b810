"""Program start: Ctrl-C during imports ends the program with one line.

Imports the standard library alone, and little of it: before this module runs Ctrl-C is Python's to answer.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from importlib import import_module

INTERRUPTED = 130
"""`trm_data.command.Exit.INTERRUPTED`, which takes imports that may be interrupted themselves."""


def start(program: str, cli: str) -> None:
    """Import a program and run it.

    Args:
        program: Stands before what is said.
        cli: Module with its `main`.
    """
    _open_closed_streams()
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where the caller ignores it
    if ours:
        signal.signal(signal.SIGINT, lambda *_: _end(program))
    main = import_module(cli).main
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


def _open_closed_streams() -> None:
    """Connect standard streams that the caller closed with nothing: else Python has None in their place, and the next
    file that is opened gets their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:  # the number is taken
                os.close(descriptor)
                descriptor = number
            setattr(sys, name, os.fdopen(descriptor, "w" if number else "r", encoding="utf-8", closefd=False))


def _end(program: str) -> None:
    with suppress(OSError):
        os.write(2, f"{program}: interrupted before it had begun\n".encode())
    os._exit(INTERRUPTED)
