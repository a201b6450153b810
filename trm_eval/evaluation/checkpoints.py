"""Selects the checkpoints to evaluate: by name, or each one as training saves it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from trm_data.storage.store import Folder
from trm_eval.errors import EvalError, NoCheckpointError
from trm_train.checkpoint.manager import weights_steps
from trm_train.metrics.table import read_metrics, totals
from trm_train.runs.overview import Condition, condition
from trm_train.runs.record import read_record
from trm_train.runs.status import read_status, written_steps


def checkpoints_of(run: Folder, checkpoint: str) -> list[str]:
    """Return values for `EvalRequest.checkpoint`: every saved step for `all`, otherwise the given name.

    For a run without a checkpoint, `all` becomes `last`, whose evaluation reports the problem.
    """
    return [str(step) for step in weights_steps(run)] or ["last"] if checkpoint == "all" else [checkpoint]


def choose_step(run: Folder, checkpoint: str) -> int:
    """Return the step for `last`, `best` or a number."""
    steps = _steps_of(run)
    if checkpoint == "last":
        return steps[-1]
    if checkpoint == "best":
        metrics = totals(read_metrics(run, written_steps(run))).to_pylist()
        metrics = [row for row in metrics if row["split"] == "validation"]
        metrics = [row for row in metrics if row["step"] in steps and row["count"]]
        scored = [(row["exact_count"] / row["count"], row["step"]) for row in metrics]
        if not scored:
            raise EvalError(f"{run.name}: has no validated checkpoint. Use --checkpoint last")
        return max(scored)[1]
    if not checkpoint.isdecimal() or int(checkpoint) not in steps:
        raise EvalError(
            f"--checkpoint {checkpoint}: {run.name} has {', '.join(map(str, steps))}; or 'last', 'best', 'all', 'watch'"
        )
    return int(checkpoint)


def _steps_of(run: Folder) -> list[int]:
    steps = weights_steps(run)
    if not steps:
        raise NoCheckpointError(
            f"{run.name}: has no checkpoint yet (--execution.checkpoint-every N sets their interval)"
        )
    return steps


POLL_S = 5.0
"""Time between two looks."""


def watch_checkpoints(
    run: Folder, said: Callable[[Condition], None], *, pause: Callable[[float], None] = time.sleep
) -> Iterator[int]:
    """Yield the step of every checkpoint once, existing ones first.

    Ends when all checkpoints were yielded and the run no longer trains: done, stopped, failed, or without a heartbeat
    for five minutes.

    Args:
        run: The run's folder.
        said: Called at the end with the condition of the run.
        pause: Waits a number of seconds.
    """
    given: set[int] = set()
    while True:
        now = condition(read_status(run), read_record(run).total_steps, datetime.now(UTC))
        new = [step for step in weights_steps(run) if step not in given]  # after `now`: none is missed
        for step in new:
            given.add(step)
            if step in weights_steps(run):  # training may have pruned it meanwhile
                yield step
        if new:
            continue
        if now not in ("running", "new"):
            said(now)
            return
        pause(POLL_S)
