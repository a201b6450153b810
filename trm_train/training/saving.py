"""Saves checkpoints on a root that may be temporarily unreachable.

If a save fails, the failure is reported, training continues, and the next checkpoint tries again. After the last step
the process waits for the bucket. Several processes skip a checkpoint together. If one of them loses the bucket during a
save, all end with exit code 4, because the libraries of the others wait for its part.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from trm_data.errors import BucketError
from trm_train.runs.resume import meta_at
from trm_train.state import TrainState
from trm_train.training.start import Started
from trm_train.training.stop import StopRequest

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
    meta = meta_at(run.record, step, run.tracking_id)
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
