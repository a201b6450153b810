"""Imports of the server process that forks workers; it ends with its parent.

`multiprocessing`'s server looks for its end only between requests, but here kernels may be compiled for a minute: a
build that is interrupted meanwhile would leave it at work, with its output open. Imported by the server alone.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
from types import FrameType

MODULES = "TRM_PRELOAD"
"""Environment variable: what to import, with commas between."""
PARENT = "TRM_PRELOAD_FOR"
"""Environment variable: the process that started the server, which may be gone before the server is up."""
LOOK_S = 0.2


def _import_all() -> None:
    """Import the modules; look for the parent meanwhile, with a timer, for a server that forks has no threads."""
    parent = int(os.environ[PARENT])

    def look(signum: int, frame: FrameType | None) -> None:
        if os.getppid() != parent:
            os._exit(1)

    before = signal.signal(signal.SIGALRM, look)
    gc.disable()  # it would look through what is imported again and again
    signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)
    try:
        for module in os.environ[MODULES].split(","):
            importlib.import_module(module)
    finally:
        gc.freeze()  # so that it leaves alone what forked workers share
        gc.enable()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


if MODULES in os.environ:
    _import_all()
