"""Cache of a root's listings, for a few seconds, for processes with many queries such as the dashboard.

Off by default. If a file was deleted, `forget` drops the cache immediately.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from trm_data.storage.root import Layout

Found = TypeVar("Found")

_LOCK = threading.RLock()
_KEPT: dict[str, dict[tuple[object, ...], Any]] = {}
"""Cached reads of each root."""
_READ: dict[str, float] = {}
"""Time of the last read of each root; its cached reads expire together."""
_seconds = 0.0


def keep_for(seconds: float) -> None:
    """Share listings of a root between queries of this process until `seconds` after the last read; 0 disables the
    cache."""
    global _seconds
    _seconds = seconds
    _KEPT.clear()


def forget(layout: Layout) -> None:
    """Drop the cached listings of a root."""
    _KEPT.pop(layout.place, None)


def recent(read: Callable[..., Found]) -> Callable[..., Found]:
    """Cache what a function reads of a layout, by its other arguments."""

    @wraps(read)
    def kept(layout: Layout, *arguments: Any) -> Found:
        if not _seconds:
            return read(layout, *arguments)
        key = (read, *arguments)
        with _LOCK:  # concurrent pages wait for one read
            if time.monotonic() - _READ.get(layout.place, -_seconds) > _seconds:
                forget(layout)
            found = _KEPT.get(layout.place, {})
            if key not in found:
                answer = read(layout, *arguments)
                found = _KEPT.setdefault(layout.place, {})
                found[key] = answer
                _READ[layout.place] = time.monotonic()
            return found[key]

    return kept
