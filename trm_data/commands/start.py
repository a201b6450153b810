"""How a program begins: Ctrl-C ends it in one line also while it is still imported.

Imports the standard library alone, and little of it: before this module runs Ctrl-C is Python's to answer.
"""

from __future__ import annotations

import os
import signal
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
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where the caller ignores it
    if ours:
        signal.signal(signal.SIGINT, lambda *_: _end(program))
    main = import_module(cli).main
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


def _end(program: str) -> None:
    with suppress(OSError):
        os.write(2, f"{program}: interrupted before it had begun\n".encode())
    os._exit(INTERRUPTED)
