"""What the modules `warm` of the kinds share."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def without_scipy() -> Generator[None, None, None]:
    """Keep numba from importing scipy at the first kernel, for BLAS, which no kernel here calls: it saves 0.2 s."""
    if "scipy" in sys.modules:
        yield
        return
    sys.modules["scipy"] = None  # pyright: ignore[reportArgumentType]
    try:
        yield
    finally:
        del sys.modules["scipy"]
