"""Runs the tasks of a build on processes of this machine.

Workers are forked from a server process that has imported what tasks need and has no threads of its own: so one
starts safely, in some hundredths of a second, and its kernels are there.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from trm_data.errors import BuildError, SpecError

T = TypeVar("T")
R = TypeVar("R")


def default_workers() -> int:
    """One worker for each core that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LocalEngine:
    """Processes of this machine; with one worker, this process.

    Tasks and items are pickled, so what they are made of must come from modules, not from the running script.

    Args:
        workers: Processes; one for each core if None.

    Raises:
        SpecError: Fewer than one.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = default_workers() if workers is None else workers
        if self.workers < 1:
            raise SpecError(f"--workers {workers}: at least 1")
        self._pool: _Pool | None = None

    def prepare(self, modules: Sequence[str]) -> None:
        """Start the server of the workers, which imports these modules while this process does other things.

        There is one for the life of this process: where it runs already, nothing changes.
        """
        if self.workers > 1 and _start_method() == "forkserver":
            from multiprocessing.forkserver import ensure_running

            multiprocessing.set_forkserver_preload(list(modules))
            with _no_main_module():
                ensure_running()

    def run(
        self,
        task: Callable[[T], R],
        items: Sequence[T],
        done: Callable[[R], None] | None = None,
        *,
        brief: bool = False,
    ) -> list[R]:
        """See `Engine.run`. What is brief runs in this process; an error ends the workers at once.

        Raises:
            BuildError: A worker was ended from outside, for instance because memory ran out.
        """
        alone = self.workers == 1 or multiprocessing.current_process().daemon  # those may start no process
        if brief or alone or len(items) <= 1:
            return [_told(task(item), done) for item in items]
        pool = self._pool = self._pool or _Pool(self.workers)
        try:
            futures = pool.submit(task, items)
            for future in as_completed(futures):
                _told(future.result(), done)
            return [future.result() for future in futures]
        except BrokenProcessPool as error:
            self._end(at_once=True)
            raise BuildError(
                "a worker process was ended from outside (out of memory?); what is whole is kept: build again, "
                "with fewer --workers if memory is short"
            ) from error
        except BaseException:
            self._end(at_once=True)
            raise

    def close(self) -> None:
        """End the workers; another `run` starts new ones."""
        self._end(at_once=False)

    def _end(self, *, at_once: bool) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.end(at_once=at_once)


class _Pool:
    """Worker processes, and a pipe whose closing ends them at once."""

    def __init__(self, workers: int) -> None:
        context = multiprocessing.get_context(_start_method())
        self._wanted, self._wanting = context.Pipe(duplex=False)
        self._executor = ProcessPoolExecutor(
            workers,
            mp_context=context,
            initializer=_begin_work,
            initargs=(Path.cwd(), dict(os.environ), self._wanted),
        )

    def submit(self, task: Callable[[T], R], items: Sequence[T]) -> list[Future[R]]:
        with _no_main_module():
            return [self._executor.submit(task, item) for item in items]

    def end(self, *, at_once: bool) -> None:
        if at_once:
            self._wanting.close()
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._wanting.close()
        self._wanted.close()


def _start_method() -> str:
    return "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


def _begin_work(folder: Path, environment: dict[str, str], wanted: Connection) -> None:
    """Make this worker like the process that it works for, and end it with that process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that gives out the tasks
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    threading.Thread(target=_end_when_not_wanted, args=(wanted,), daemon=True).start()


def _end_when_not_wanted(wanted: Connection) -> None:
    """End at once when the process that gives out the tasks closes its end, or has ended itself."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([wanted, parent.sentinel])
    os._exit(1)


@contextmanager
def _no_main_module() -> Generator[None, None, None]:
    """Keep new processes from running the script again that runs in this one."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _told(result: R, done: Callable[[R], None] | None) -> R:
    if done is not None:
        done(result)
    return result
