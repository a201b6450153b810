"""Check that ArrayRecord can start its threads; otherwise a reader hangs and a writer aborts."""

from __future__ import annotations

import threading
from functools import cache

from trm_data.errors import ScarceError

READER_THREADS = 64
"""Of the pool that all readers of a process share; the first one starts it, whatever its options."""
MARGIN = 8


@cache
def check_threads() -> None:
    """Check once per process, before the first shard is opened, that as many threads as a reader needs can start."""
    ended = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(READER_THREADS + MARGIN):
            thread = threading.Thread(target=ended.wait, daemon=True)
            thread.start()
            started.append(thread)
    except (RuntimeError, MemoryError) as error:
        raise ScarceError(
            f"cannot start {READER_THREADS} threads to read and write shards ({error}). Raise the limit (ulimit -v, "
            f"ulimit -u, the container's), or use fewer --workers"
        ) from error
    finally:
        ended.set()
        for thread in started:
            thread.join()
