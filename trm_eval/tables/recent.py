"""Listings of a root, cached for a few seconds for processes with many queries, such as the dashboard.

Off unless a process asks for it. Files that are gone are looked for again at once (`forget`).
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
"""What was read of each root."""
_READ: dict[str, float] = {}
"""When something was last read of it: what belongs together is forgotten together."""
_seconds = 0.0


def keep_for(seconds: float) -> None:
    """Let the queries of this process share what they list and read of a root, until a time after the last of it was
    read (s); 0 ends that."""
    global _seconds
    _seconds = seconds
    _KEPT.clear()


def forget(layout: Layout) -> None:
    """List a root again at the next query."""
    _KEPT.pop(layout.place, None)


def recent(read: Callable[..., Found]) -> Callable[..., Found]:
    """Keep what a function reads of a layout, by its further arguments."""

    @wraps(read)
    def kept(layout: Layout, *arguments: Any) -> Found:
        if not _seconds:
            return read(layout, *arguments)
        key = (read, *arguments)
        with _LOCK:  # a second page waits for what the first one reads
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
