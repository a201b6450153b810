"""Imports of the server process that forks workers; it ends with its parent.

`multiprocessing`'s server checks for its parent's end only between requests, but here compiling kernels may take a
minute. If the build were interrupted meanwhile, the server would keep running, with its output open. Only the server
imports this module.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
from types import FrameType

MODULES = "TRM_PRELOAD"
"""Environment variable: names of the modules to import, separated by commas."""
PARENT = "TRM_PRELOAD_FOR"
"""Environment variable: ID of the process that started the server, which may end before the server is ready."""
POLL_S = 0.2


def _import_all() -> None:
    """Import the modules and run their kernels; look for the parent's end meanwhile.

    A timer does this, because a server that forks must have no threads.
    """
    parent = int(os.environ[PARENT])

    def look(signum: int, frame: FrameType | None) -> None:
        if os.getppid() != parent:
            os._exit(1)

    before = signal.signal(signal.SIGALRM, look)
    gc.disable()  # it would scan the imported objects again and again
    signal.setitimer(signal.ITIMER_REAL, POLL_S, POLL_S)
    try:
        for module in os.environ[MODULES].split(","):
            imported = importlib.import_module(module)
            if hasattr(imported, "warm"):
                imported.warm()
    finally:
        gc.freeze()  # so that it does not touch memory shared with forked workers
        gc.enable()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


if MODULES in os.environ:
    _import_all()
