"""Runs the tasks of a build on threads of this process.

The kernels, the hash and the compression all release the interpreter's lock, so threads scale and cost no
start-up; a process pool would pay the imports once a worker (docs/decisions/0002).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def default_workers() -> int:
    """One worker for each core that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_tasks(task: Callable[[T], R], items: Sequence[T], workers: int) -> list[R]:
    """`task` of every item, in the order of `items`.

    The first error ends the run: tasks that have not started are dropped, then it is raised.
    """
    if workers <= 1 or len(items) <= 1:
        return [task(item) for item in items]
    with ThreadPoolExecutor(max_workers=min(workers, len(items)), thread_name_prefix="build") as pool:
        futures = [pool.submit(task, item) for item in items]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        if any(future.exception() for future in done):
            pool.shutdown(wait=True, cancel_futures=True)
        return [future.result() for future in futures if not future.cancelled()]


def slices(count: int, workers: int, *, smallest: int = 32) -> list[tuple[int, int]]:
    """Cut `count` items into even ranges, a few for each worker, none smaller than `smallest` but the last."""
    size = max(smallest, -(-count // (4 * workers)))
    return [(start, min(start + size, count)) for start in range(0, count, size)]
