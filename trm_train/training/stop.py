"""Ends of a run: stop requests, failures and how to resume, and checkpoints on a root that may be unreachable.

A stop request is SIGTERM or Ctrl-C. A preempted machine of Google Cloud shuts down, so its processes get SIGTERM.

If a save fails, the failure is reported, training continues, and the next checkpoint tries again. After the last step
the process waits for the bucket. Several processes skip a checkpoint together. If one of them loses the bucket during a
save, all end with exit code 4, because the libraries of the others wait for its part.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

import jax

from trm_data.command import STOPS, handled
from trm_data.errors import BucketError, DataError, Exit
from trm_train.checkpoint.manager import is_full
from trm_train.errors import NotFiniteError, OutOfMemoryError, TrainError
from trm_train.hosts import lost
from trm_train.runs.resume import meta_at
from trm_train.state import TrainState
from trm_train.training.start import Started


class StoppedError(Exception):
    """The work was interrupted by a stop request."""


@dataclass
class StopRequest:
    """Stop request of a run.

    Attributes:
        signal: Number of the received signal; 0 if none.
        agreed: With several processes, the exit code that all of them agree on after the same step; 0 if none was
            asked to stop. None in a single process.
        ask: Sends this process's exit code, and returns the maximum over all processes as a pending result.
    """

    signal: int = 0
    agreed: int | None = None
    ask: Callable[[int], Any] | None = None
    _asked: Any = None

    @property
    def requested(self) -> bool:
        """Whether a stop was requested and, with several processes, all of them know it."""
        return bool(self.wish if self.agreed is None else self.agreed)

    @property
    def exit_code(self) -> int:
        """Exit code of the process after this request."""
        return self.wish if self.agreed is None else self.agreed

    @property
    def wish(self) -> int:
        """Exit code that this process was asked to end with; 0 if it was not asked."""
        return 128 + self.signal if self.signal else Exit.DONE

    def agree(self) -> None:
        """Send the request to the other processes, if any, and read the result of the previous call.

        All processes must call it equally often, so that all know after the same step or validation batch.
        """
        if self.ask is None:
            return
        self.agreed, self._asked = 0 if self._asked is None else int(self._asked), self.ask(self.wish)


@contextmanager
def stop_signals() -> Generator[StopRequest, None, None]:
    """Record the first signal; a second SIGTERM or SIGINT ends the process at once, as by default."""
    stop = StopRequest()

    def request(number: int, frame: FrameType | None) -> None:
        stop.signal = stop.signal or number
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    with handled(request, *STOPS):
        yield stop


LESS_MEMORY = (
    "--execution.micro-batches N, --execution.rematerialise, --execution.shard-parameters, more devices or "
    "a smaller batch take"
)


@contextmanager
def explaining_memory() -> Generator[None, None, None]:
    """Add advice on what to change when the devices run out of memory."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if not _is_out_of_memory(error):
            raise
        raise OutOfMemoryError(_out_of_memory(error)) from error


def explained(run: Started, error: Exception) -> Exception:
    """Write an error to the run's status, if still possible, and return the exception to raise."""
    good = run.checkpoints.latest_step()
    if isinstance(error, NotFiniteError):
        way = f"the last checkpoint is at step {good:,}" if good else "there is no checkpoint yet"
        error = NotFiniteError(f"{run.record.run}: {error}; {way}; a lower --optim.lr is a run of its own")
    elif is_full(error) and not isinstance(error, TrainError):
        resumes = f"resumes from step {good:,}" if good else "starts over"
        error = TrainError(
            f"{run.folder}: no space left for metrics and logs; free some, and the same command {resumes}"
        )
    elif _is_out_of_memory(error):
        error = OutOfMemoryError(_out_of_memory(error))
    elif run.hosts.count > 1 and isinstance(error, jax.errors.JaxRuntimeError):
        hint = "the same commands resume from the last checkpoint"
        error = lost(error, run.record.run, hint)
    with suppress(DataError, OSError):
        run.observer.flush("failed", str(error))
    return error


def _is_out_of_memory(error: Exception) -> bool:
    said = "RESOURCE_EXHAUSTED" in str(error) or "Out of memory" in str(error)
    return said and isinstance(error, jax.errors.JaxRuntimeError)


def _out_of_memory(error: Exception) -> str:
    said = str(error).splitlines()[0].removeprefix("RESOURCE_EXHAUSTED: ").rstrip(".")
    return (
        f"the devices cannot hold this run ({said}); {LESS_MEMORY} less; --dry-run --target MACHINE says how much it "
        "takes"
    )


BARRIER_S = 86_400.0
"""Timeout of the barrier in a save (s); `--execution.save-limit-s` ends the process earlier."""
RETRY_S = 5.0
"""Pause between attempts to save the last checkpoint (s)."""


def save(run: Started, state: TrainState, step: int) -> bool:
    """Write the metrics up to a step, then start to write its checkpoint; return whether the bucket accepted both."""
    with _time_limit(run):
        problem = _save(run, state, step)
    if problem:
        run.observer.say(
            f"step {step:>6,}  the checkpoint could not be saved ({problem}); training continues, and the next "
            "checkpoint tries again"
        )
    return not problem


def finish_saving(run: Started, stop: StopRequest, state: TrainState, step: int, *, saved: bool) -> None:
    """Return when the checkpoint of the last step is stored; wait while the bucket is unreachable.

    Args:
        run: The run.
        stop: Stop request. With a single process, a first signal during the wait ends the wait.
        state: State after the last step.
        step: The last step.
        saved: Whether the write of its checkpoint has already started.
    """
    signal = stop.signal
    way_out = "Ctrl-C ends" if run.hosts.count == 1 else "a second signal ends"
    with _time_limit(run):
        while problem := _store(run, state, step, saved=saved):
            saved = False
            if run.hosts.count == 1 and stop.signal != signal:
                raise BucketError(
                    f"{run.record.run}: the last checkpoint, at step {step:,}, could not be saved ({problem}); the "
                    "same command resumes from the one before"
                )
            run.observer.say(
                f"step {step:>6,}  waiting for the bucket to take the last checkpoint ({problem}); {way_out} the "
                "run without it"
            )
            time.sleep(RETRY_S)


def _time_limit(run: Started) -> AbstractContextManager[None]:
    return run.observer.stall_timer.task(run.config.execution.save_limit_s)


def _store(run: Started, state: TrainState, step: int, *, saved: bool) -> str:
    """Save a checkpoint unless already started, and wait until it is stored; return the problem, or ""."""
    return ("" if saved else _save(run, state, step)) or _attempt(run, run.checkpoints.wait)


def _save(run: Started, state: TrainState, step: int) -> str:
    """Write metrics, then start a checkpoint; return the problem, or "". All processes return a problem together."""
    if lost := _attempt(run, run.checkpoints.wait):
        run.observer.say(f"step {step:>6,}  the previous checkpoint could not be saved ({lost})")
    if problem := _problem_of_any(run, _attempt(run, lambda: run.observer.flush("running"), together=False)):
        return problem
    meta = meta_at(run.record, step)
    return _attempt(run, lambda: run.checkpoints.save(state, meta))


def _attempt(run: Started, part: Callable[[], None], *, together: bool = True) -> str:
    """Run one part of a save; return the problem if the bucket is unreachable, else "".

    Args:
        run: The run.
        part: Function to run.
        together: The processes wait for each other in `part`. With several processes, the error is then raised.
    """
    try:
        part()
    except BucketError as error:
        if together and run.hosts.count > 1:
            raise BucketError(f"{error}; the same commands resume from the last checkpoint") from error
        return str(error)
    return ""


def _problem_of_any(run: Started, problem: str) -> str:
    """Return the problem of this process, else of any other. A barrier: all processes must call it equally often."""
    every = run.hosts.barrier("saving", problem or "-", BARRIER_S)
    return problem or next((said for said in every if said != "-"), "")
