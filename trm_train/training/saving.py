"""Saving a checkpoint, however long that takes and wherever it can be saved.

That it takes long is said. Where the bucket is away for longer than requests are patient, or the time for a save is
over, each process keeps what it holds in its user's cache (`checkpoint/rescued.py`), says so, and ends; the next
start finds it there (`training/rescue.py`). All processes do so at the same step: they tell each other after every
part of a save whether the bucket took it, and a report that could not be written asks all to stop as a signal does.

Neighbour: `overdue` watches from a thread, because what saves may wait for ever: for a bucket, or for a process that
has given up.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial

from trm_data.command import Exit
from trm_data.errors import BucketError
from trm_data.interrupt import end_now
from trm_train.checkpoint.manager import CheckpointMeta
from trm_train.checkpoint.rescued import rescue_state
from trm_train.errors import HostError, UnsavedError
from trm_train.runs.record import CONFIG_FILE
from trm_train.runs.resume import meta_at
from trm_train.state import TrainState
from trm_train.training.overdue import Overdue
from trm_train.training.start import Started

TOGETHER_S = 86_400.0
"""Processes wait so long for each other during a save; `overdue` ends it before."""
KEPT_S = 60.0
"""And so long when each has kept what it holds: one that is gone has kept nothing."""
AWAY = "away"
"""Under this name processes tell each other that a bucket has taken no checkpoint."""


def save(run: Started, state: TrainState, step: int) -> None:
    """Write the metrics up to here, then start writing the checkpoint that stands on them.

    Raises:
        UnsavedError: The bucket is away; what was to be saved is kept here.
    """
    meta = _meta(run, step)
    parts = [lambda: run.observer.flush("running"), lambda: run.checkpoints.save(state, meta)]
    _save_or_keep(run, state, meta, parts)


def finish_saving(run: Started, state: TrainState, step: int) -> None:
    """Return when everything that was saved is where it belongs.

    Raises:
        UnsavedError: The bucket is away; what was to be saved is kept here.
    """
    run.observer.watchdog.close()
    _save_or_keep(run, state, _meta(run, step), [run.checkpoints.wait])


def _meta(run: Started, step: int) -> CheckpointMeta:
    """What the checkpoint at a step says of itself."""
    return meta_at(run.record, step, run.tracking_id)


def _save_or_keep(
    run: Started, state: TrainState, meta: CheckpointMeta, parts: list[Callable[[], None]]
) -> None:
    """Do one after the other what saves a state, as long as the bucket takes it from every process."""
    keeping = threading.Lock()
    overdue = Overdue(
        what=f"saving checkpoint at step {meta.step:,}",
        limit_s=run.config.execution.save_limit_s,
        say=run.observer.say,
        ask=lambda: run.folder.read(CONFIG_FILE),
        told=lambda: _told(run),
        end=partial(_end, run, state, meta, keeping),
    )
    with run.observer.watchdog.paused(), overdue:
        lost = run.observer.lost
        for part in parts:
            if lost is None:
                try:
                    part()
                except BucketError as error:
                    lost = error
                    _tell(run, str(error), Exit.BUCKET)
            if (lost := _agreed(run, lost)) is not None:
                break
        else:
            if not keeping.acquire(blocking=False):
                threading.Event().wait()  # it was overdue a moment before: `_end` ends the process
            return
        keeping.acquire()  # never given back: the process ends
    text = _keep(run, state, meta, str(lost))
    error = UnsavedError(text)
    run.hosts.say(text)
    run.hosts.leave(error)
    raise error from lost


def _tell(run: Started, reason: str, code: Exit) -> None:
    """Tell the other processes that this one gives a save up, so that they keep what they hold as well."""
    run.hosts.tell(AWAY, json.dumps([reason, int(code)]))


def _told(run: Started) -> tuple[str, Exit] | None:
    """Why another process has given a save up, and how it ends; None while none has."""
    for said in run.hosts.told(AWAY):
        reason, code = json.loads(said)
        return reason, Exit(code)
    return None


def _agreed(run: Started, lost: BucketError | None) -> BucketError | None:
    """Why the bucket is away, for any of the processes; each comes by here equally often."""
    for said in run.hosts.meet("saving", str(lost or "-"), TOGETHER_S):
        if said != "-" and lost is None:
            return BucketError(said)
    return lost


def _keep(run: Started, state: TrainState, meta: CheckpointMeta, reason: str) -> str:
    """Keep what this process holds; returns what to say. The others have kept theirs then, or are gone."""
    goes_on = "commands on the same hosts go" if run.hosts.count > 1 else "command on this machine goes"
    goes_on = f"the same {goes_on} on from there"
    try:
        where = rescue_state(
            run.folder, run.hosts, state, meta, run.record.created_at, run.observer.unwritten(meta.step)
        )
        kept = f"step {meta.step:,} is kept in {where}"
    except (OSError, RuntimeError) as error:
        kept = f"step {meta.step:,} could not be kept here either ({error})"
        goes_on = "the same command goes on from the last checkpoint"
    try:
        run.hosts.meet("kept", limit_s=KEPT_S)
    except HostError as error:
        goes_on = f"but not by all hosts ({error}), so that the last checkpoint may be what counts"
    return f"{run.record.run}: the checkpoint could not be saved ({reason}); {kept}; {goes_on}"


def _end(
    run: Started, state: TrainState, meta: CheckpointMeta, keeping: threading.Lock, reason: str, code: Exit
) -> None:
    """End a process whose save is overdue, whatever its main thread waits for; that one may be ending it already."""
    if not keeping.acquire(blocking=False):
        return
    _tell(run, reason, code)
    text = _keep(run, state, meta, reason)
    run.hosts.say(text)
    run.hosts.leave(HostError(text, code))
    end_now(code)
