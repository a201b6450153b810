"""Follows a run that is training: every checkpoint as it is saved, until the run ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import weights_steps
from trm_train.runs.overview import Condition, condition
from trm_train.runs.record import read_record
from trm_train.runs.status import read_status

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
        pause: Waits so many seconds.

    Raises:
        ConfigError: The folder holds no run.
    """
    given: set[int] = set()
    while True:
        now = condition(read_status(run), read_record(run).total_steps, datetime.now(UTC))
        new = [step for step in weights_steps(run) if step not in given]  # after the state: none is missed
        for step in new:
            given.add(step)
            if step in weights_steps(run):  # training keeps the last few, and may have gone on meanwhile
                yield step
        if new:
            continue
        if now not in ("running", "new"):
            said(now)
            return
        pause(LOOK_S)
