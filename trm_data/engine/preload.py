"""Imports the modules of workers, and runs their kernels, in the server that forks them.

Only the server imports this module.
"""

from __future__ import annotations

import gc
import importlib
import os

MODULES = "TRM_PRELOAD"
"""Environment variable: names of the modules to import, separated by commas."""

if MODULES in os.environ:
    for module in os.environ[MODULES].split(","):
        imported = importlib.import_module(module)
        if hasattr(imported, "warm"):
            imported.warm()
    gc.freeze()  # so that it does not touch memory shared with forked workers
