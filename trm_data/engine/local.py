"""Run the tasks of a build on processes of this machine.

Workers are forked from a server process (`multiprocessing`'s forkserver) that has no threads. After `prepare` it has
also imported what tasks need, kernels included. So a worker starts safely, in some hundredths of a second.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import TypeVar

from typing_extensions import override

from trm_data.engine import preload
from trm_data.errors import BuildError, ScarceError, SpecError

T = TypeVar("T")
R = TypeVar("R")

IMPORTED_BY_WORKERS = (
    "trm_data.building.shard_job",
    "array_record.python.array_record_module",
    "numba",
    "pyarrow",
)
"""Modules that the server process imports before it forks workers."""
SERVER_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",  # numpy would start threads
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow would start one
    "PYTHONSAFEPATH": "1",  # modules of the current folder are not the library's
}

_starting = threading.Lock()


def default_workers() -> int:
    """Return one worker for each core that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LocalEngine:
    """Engine on processes of this machine. With one worker, or in a daemon process, tasks run in this process.

    Tasks and items are pickled, so their types must come from modules, not from the running script.

    Args:
        workers: Processes; one for each core if None.

    Raises:
        SpecError: Fewer than one worker.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise SpecError(f"--workers {workers}: expected at least 1")
        self.workers = default_workers() if workers is None else workers
        self._pool: _Pool | None = None

    @property
    def _alone(self) -> bool:
        return self.workers == 1 or multiprocessing.current_process().daemon

    def prepare(self, warm: str) -> None:
        """Start the server of the workers, which imports the module `warm` while this process does other work.

        There is one server for the life of this process; if it runs already, nothing changes.
        """
        if not self._alone:
            _start_server(warm)

    def run(
        self,
        task: Callable[[T], R],
        items: Sequence[T],
        done: Callable[[R], None] | None = None,
        *,
        brief: bool = False,
    ) -> list[R]:
        """Run tasks on worker processes.

        Brief tasks run in this process until there are workers. An error ends the workers at once.
        """
        if self._alone or (self._pool is None and (brief or len(items) <= 1)):
            return [_told(task(item), done) for item in items]
        pool = self._pool = self._pool or _Pool(self.workers)
        try:
            futures = pool.submit(task, items)
            for future in as_completed(futures):
                _told(future.result(), done)
            return [future.result() for future in futures]
        except BrokenProcessPool as error:
            self._end(at_once=True)
            why = (
                f"failed: {error.__cause__}" if error.__cause__ else "was ended from outside (out of memory?)"
            )
            raise BuildError(
                f"a worker process {why}; complete shards are kept. Build again (fewer --workers need less memory)"
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
    """Worker processes, and a pipe that tells them to exit at once."""

    def __init__(self, workers: int) -> None:
        _start_server()
        context = _Context()
        # The first start waits for the server; an interrupt meanwhile does not harm this process.
        first = context.Process(target=_nothing)
        try:
            first.start()
        except (EOFError, ConnectionError) as error:
            raise ScarceError(
                "the process that starts the workers was killed (out of memory?). Build again, with --workers 1 if "
                "memory is short"
            ) from error
        first.join()
        self._told, self._telling = context.Pipe(duplex=False)
        self._executor = ProcessPoolExecutor(
            workers,
            mp_context=context,
            initializer=_begin_work,
            initargs=(dict(os.environ), self._told),
        )

    def submit(self, task: Callable[[T], R], items: Sequence[T]) -> list[Future[R]]:
        return [self._executor.submit(task, item) for item in items]

    def end(self, *, at_once: bool) -> None:
        if at_once:
            self._telling.send_bytes(b"end")  # never read, so every worker sees it
        with suppress(RuntimeError):  # its thread could not start, so there is nothing to wait for
            self._executor.shutdown(wait=True, cancel_futures=True)
        self._telling.close()
        self._told.close()


class _Process(ForkServerProcess):
    """A process that does not run the main script of this process again."""

    @override
    def start(self) -> None:
        with _no_script():
            super().start()


def _nothing() -> None:
    """Do nothing: target of a process that only tests whether processes can start."""


class _Context(ForkServerContext):
    Process = _Process


def _begin_work(environment: dict[str, str], told: Connection) -> None:
    """Give this worker the environment of the parent process, and end it with that process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    os.environ.clear()
    os.environ.update(environment)
    threading.Thread(target=_end_when_told, args=(told,), daemon=True).start()


def _end_when_told(told: Connection) -> None:
    """Exit at once when the parent process says so, or has ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([told, parent.sentinel])
    os._exit(1)


def _start_server(warm: str = "") -> None:
    """Start the forkserver process, unless it runs.

    Args:
        warm: Extra module for it to import.
    """
    # The server ignores Ctrl-C only after it has imported its modules, so SIGINT is blocked while it starts. The
    # resource tracker must run first, because starting it together with the server would unblock SIGINT.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        modules = ",".join([*IMPORTED_BY_WORKERS, *([warm] if warm else [])])
        multiprocessing.set_forkserver_preload([preload.__name__])
        with (
            _no_script(),
            _environment(SERVER_ENVIRONMENT | {preload.MODULES: modules}),
        ):
            forkserver.ensure_running()
    except OSError as error:
        if "path too long" not in str(error):
            raise
        raise SpecError(
            f"TMPDIR={tempfile.gettempdir()}: too long for the socket of worker processes; set a shorter one, or "
            "use --workers 1"
        ) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _no_script() -> Generator[None, None, None]:
    """Hide the main script of this process from new processes."""
    with _starting:
        main = sys.modules["__main__"]
        before = {name: getattr(main, name, None) for name in ("__spec__", "__file__")}
        for name in before:
            setattr(main, name, None)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None and name == "__file__":
                    delattr(main, name)
                else:
                    setattr(main, name, value)


@contextmanager
def _environment(variables: dict[str, str]) -> Generator[None, None, None]:
    """Set environment variables for processes started within the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _told(result: R, done: Callable[[R], None] | None) -> R:
    if done is not None:
        done(result)
    return result
