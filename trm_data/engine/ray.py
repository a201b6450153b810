"""Run the tasks of a build on a Ray cluster (the extra `ray`): every node must reach the root.

Join the cluster at `RAY_ADDRESS`, or start one on this machine. Tasks of a lost node run again elsewhere. A task
writes complete files under final names or nothing, so running it twice is safe.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from trm_data.errors import BuildError, DataError, SpecError, needs_extra

T = TypeVar("T")
R = TypeVar("R")

RETRIES = 10
"""Maximum number of retries of a task whose node was lost."""
IN_FLIGHT = 4
"""Number of submitted tasks for each task that can run."""


class RayEngine:
    """A Ray cluster.

    Args:
        workers: Concurrent tasks; all cores of the cluster if None.

    Raises:
        SpecError: The extra is missing, no cluster can be joined, or there is less than one worker.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise SpecError(f"--workers {workers}: expected at least 1")
        try:
            import ray
        except ImportError as error:
            raise SpecError(needs_extra("--engine ray", "ray")) from error
        address = os.environ.get("RAY_ADDRESS")
        if not ray.is_initialized():
            try:
                # Without an address Ray would join the last cluster started here, even a dead one.
                ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise SpecError(f"--engine ray: no cluster at RAY_ADDRESS={address} ({error})") from error
        self._ray: Any = ray
        self._limit = workers
        self.workers = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))

    def run(
        self,
        task: Callable[[T], R],
        items: Sequence[T],
        done: Callable[[R], None] | None = None,
        *,
        brief: bool = False,
    ) -> list[R]:
        """Run tasks on the cluster, and submit a few more than it has cores; `brief` has no effect."""
        from ray import exceptions

        ray = self._ray
        remote = ray.remote(num_cpus=1, max_retries=RETRIES)(_apply)
        shared = ray.put(task)
        results: dict[int, Any] = {}
        running: dict[Any, int] = {}
        most = self._limit or self.workers * IN_FLIGHT
        waiting = iter(enumerate(items))
        try:
            while len(results) < len(items):
                while len(running) < most and (item := next(waiting, None)) is not None:
                    running[remote.remote(shared, item[1])] = item[0]
                ready, _ = ray.wait(list(running), num_returns=1)
                for reference in ready:
                    position = running.pop(reference)
                    results[position] = ray.get(reference)
                    if done is not None:
                        done(results[position])
        except exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, (DataError, OSError)):
                raise cause from error
            raise
        except exceptions.RayError as error:
            raise BuildError(f"the Ray cluster lost a task ({error}); build again") from error
        finally:
            for reference in running:
                ray.cancel(reference, force=False)
        return [cast(R, results[position]) for position in range(len(items))]

    def prepare(self, warm: str) -> None:
        """Do nothing: nodes import what a task needs when they run it."""

    def close(self) -> None:
        """Do nothing: a joined cluster stays; a cluster started here ends with this process."""


def _apply(task: Callable[[T], R], item: T) -> R:
    return task(item)
