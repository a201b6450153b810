"""Runs the tasks of a build on threads of this process.

The kernels, the hash and the compression all release the interpreter's lock, so threads scale and cost no
start-up; a process pool would pay the imports once a worker (docs/decisions/0002).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from trm_data.errors import SpecError

T = TypeVar("T")
R = TypeVar("R")


def default_workers() -> int:
    """One worker for each core that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LocalEngine:
    """Threads of this process.

    Args:
        workers: Threads; one for each core if None.

    Raises:
        SpecError: Fewer than one.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = default_workers() if workers is None else workers
        if self.workers < 1:
            raise SpecError(f"--workers {workers}: at least 1")

    def run(
        self, task: Callable[[T], R], items: Sequence[T], done: Callable[[R], None] | None = None
    ) -> list[R]:
        """See `Engine.run`."""
        if self.workers == 1 or len(items) <= 1:
            return [_told(task(item), done) for item in items]
        pool = ThreadPoolExecutor(max_workers=min(self.workers, len(items)), thread_name_prefix="build")
        try:
            futures = [pool.submit(task, item) for item in items]
            for future in as_completed(futures):
                _told(future.result(), done)
            return [future.result() for future in futures]
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _told(result: R, done: Callable[[R], None] | None) -> R:
    if done is not None:
        done(result)
    return result
