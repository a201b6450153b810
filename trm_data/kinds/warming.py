"""What the modules `warm` of the kinds share."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

UNUSED = ("scipy.linalg", "cffi")
"""What numba imports at the first kernel if it can, for BLAS and for functions of C, which no kernel here calls."""


@contextmanager
def without_unused() -> Generator[None, None, None]:
    """Keep numba from importing it, which saves 0.2 s where both are installed; what is imported already stays."""
    held = [name for name in UNUSED if name not in sys.modules]
    for name in held:
        sys.modules[name] = None  # pyright: ignore[reportArgumentType]
    try:
        yield
    finally:
        for name in held:
            del sys.modules[name]
