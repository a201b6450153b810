"""Engine of a build: runs its tasks on processes of this machine (`engine.local`) or a Ray cluster (`engine.ray`).

A task is a picklable callable and an item. Results come back in the order of the items, wherever they ran. So the
rows of a dataset do not depend on the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Processes or machines that run tasks."""

    workers: int
    """Number of tasks that run at a time."""

    def run(
        self,
        task: Callable[[T], R],
        items: Sequence[T],
        done: Callable[[R], None] | None = None,
        *,
        brief: bool = False,
    ) -> list[R]:
        """Run `task` on every item; return the results in the order of `items`, and pass each to `done` as it comes.

        `brief`: all items together take less time than starting a worker. The first error ends the run: tasks that
        have not started are cancelled, then the error is raised.
        """
        ...

    def prepare(self, warm: str) -> None:
        """Prepare to run tasks, while the caller does other work.

        Args:
            warm: Module that compiles or loads the kernels for the tasks; empty if there is none.
        """
        ...

    def close(self) -> None:
        """Release processes and connections; another `run` starts them again."""
        ...


def slices(count: int, workers: int, *, smallest: int = 512) -> list[tuple[int, int]]:
    """Cut `count` items into equal ranges, a few for each worker, none smaller than `smallest` except the last."""
    size = max(smallest, -(-count // (4 * workers)))
    return [(start, min(start + size, count)) for start in range(0, count, size)]
