"""Failure of a run: its final status, and an error that says how to resume."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress

import jax

from trm_data.errors import DataError
from trm_train.checkpoint.manager import is_full
from trm_train.errors import NotFiniteError, OutOfMemoryError, TrainError
from trm_train.hosts.coordination import lost
from trm_train.training.start import Started

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
        f"the devices cannot hold this run ({said}); {LESS_MEMORY} less; --dry-run --devices N --device KIND says how "
        "much it takes"
    )
