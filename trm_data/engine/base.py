"""What runs the tasks of a build: processes of this machine (`engine.local`) or a Ray cluster (`engine.ray`).

A task is a picklable callable and an item; results come back in the order of the items, whatever ran where. So
the rows of a dataset do not depend on the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Processes or machines that run tasks."""

    workers: int
    """Tasks that run at a time."""

    def run(
        self,
        task: Callable[[T], R],
        items: Sequence[T],
        done: Callable[[R], None] | None = None,
        *,
        brief: bool = False,
    ) -> list[R]:
        """`task` of every item, in the order of `items`; `done` is told of each result as it comes.

        `brief`: all items together take less time than starting a worker. The first error ends the run: tasks that
        have not started are dropped, then it is raised.
        """
        ...

    def prepare(self, warm: str) -> None:
        """Get ready to run tasks, while the caller does other things.

        Args:
            warm: Module that runs the kernels which the tasks need; empty if there is none.
        """
        ...

    def close(self) -> None:
        """Give back what was started; another `run` starts it again."""
        ...


def slices(count: int, workers: int, *, smallest: int = 512) -> list[tuple[int, int]]:
    """Cut `count` items into even ranges, a few for each worker, none smaller than `smallest` but the last."""
    size = max(smallest, -(-count // (4 * workers)))
    return [(start, min(start + size, count)) for start in range(0, count, size)]
