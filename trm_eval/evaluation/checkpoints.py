"""Choice of the checkpoints to evaluate: by name, or each as training saves it."""

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
    """What `EvalRequest.checkpoint` takes: every step there is for `all`, else what was asked for.

    Of a run that has no checkpoint yet `all` is `last`, which says so when it is evaluated.
    """
    return [str(step) for step in weights_steps(run)] or ["last"] if checkpoint == "all" else [checkpoint]


def choose_step(run: Folder, checkpoint: str) -> int:
    """The step that `last`, `best` or a number names."""
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
            f"{run.name}: has no checkpoint yet; the first is written at execution.checkpoint_every steps"
        )
    return steps


LOOK_S = 5.0
"""Time between two looks."""


def watch_checkpoints(
    run: Folder, said: Callable[[Condition], None], *, pause: Callable[[float], None] = time.sleep
) -> Iterator[int]:
    """Step of every checkpoint, each once, those that are there first.

    It ends when the run no longer trains (done, stopped, failed, or not heard of for five minutes) and all its
    checkpoints were given.

    Args:
        run: The run's folder.
        said: Told at the end what became of the run.
        pause: Waits a number of seconds.
    """
    given: set[int] = set()
    while True:
        now = condition(read_status(run), read_record(run).total_steps, datetime.now(UTC))
        new = [step for step in weights_steps(run) if step not in given]  # after the state: none is missed
        for step in new:
            given.add(step)
            if step in weights_steps(run):  # training keeps the last few, and may have continued meanwhile
                yield step
        if new:
            continue
        if now not in ("running", "new"):
            said(now)
            return
        pause(LOOK_S)
