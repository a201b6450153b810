"""How a run goes on from what its hosts have kept, because it could not be saved (`training/saving.py`).

What counts is what all processes have kept of one step, later than the last checkpoint: it is saved there before
anything else is done, and removed. Otherwise the last checkpoint counts, and that is said.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from trm_data.command import Exit
from trm_data.interrupt import end_now
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import Checkpoints, Restored
from trm_train.checkpoint.rescued import ROWS, Rescued, find_rescued, forget_rescued, load_rescued, place_of
from trm_train.errors import CheckpointError, HostError
from trm_train.hosts.together import Hosts
from trm_train.metrics.table import add_kept_rows
from trm_train.runs.record import CONFIG_FILE, RunRecord
from trm_train.runs.resume import check_same_run
from trm_train.state import TrainState
from trm_train.training.overdue import Overdue


def restore_rescued(
    folder: Folder,
    record: RunRecord,
    checkpoints: Checkpoints,
    hosts: Hosts,
    like: TrainState,
    found: Restored | None,
    say: Callable[[str], object],
    *,
    limit_s: float,
) -> Restored | None:
    """What to go on from: what all hosts have kept, which is saved then, or else what was found.

    Args:
        folder: The run's.
        record: What it is.
        checkpoints: Its checkpoints.
        hosts: All its processes, each of which calls this.
        like: Shapes with shardings.
        found: The last checkpoint.
        say: Tells a person.
        limit_s: Seconds that saving may take, before the process is ended; 0 is for ever.

    Raises:
        BucketError: The bucket is still away; what is kept stays.
    """
    last = 0 if found is None else found.meta.step
    kept, problem = _own(folder, record, hosts, last)
    state = None
    if kept is not None:
        state = load_rescued(folder, hosts, kept, like)
        problem = "" if state is not None else "was kept with other devices, or another layout over them"
    step = 0 if kept is None else kept.meta.step
    said = [json.loads(one) for one in hosts.meet("kept states", json.dumps([step, problem]))]
    steps = {one[0] for one in said}
    if steps == {0}:
        forget_rescued(folder, hosts)
        return found
    problems = [
        f"{hosts.name(index)}: {other or f'has kept none of step {max(steps):,}'}"
        for index, (at, other) in enumerate(said)
        if other or at != max(steps)
    ]
    if not problems and hosts.first:
        assert kept is not None
        problems = _rows_problem(folder, hosts, kept)
    problems = json.loads(hosts.meet("kept rows", json.dumps(problems))[0])
    if problems:
        goes_on = f"the last checkpoint, at step {last:,}, is used" if last else "the run begins anew"
        say(
            f"a state of step {max(steps):,} that hosts have kept cannot be used: {'; '.join(problems)}; {goes_on}"
        )
        return found
    assert kept is not None
    assert state is not None
    say(f"going on from step {step:,}, which the hosts have kept; saving it first")
    overdue = Overdue(
        what=f"saving step {step:,}, which the hosts have kept,",
        limit_s=limit_s,
        say=say,
        ask=lambda: folder.read(CONFIG_FILE),
        told=lambda: None,
        end=partial(_end, hosts, step),
    )
    with overdue:
        checkpoints.save(state, kept.meta)
        checkpoints.wait()
    hosts.meet("kept states are saved")
    forget_rescued(folder, hosts)
    return Restored(state, kept.meta, [] if found is None else found.problems)


def _end(hosts: Hosts, step: int, reason: str, code: Exit) -> None:
    """End a process that waits in saving what is kept, whatever for; it stays kept."""
    error = HostError(
        f"what the hosts have kept of step {step:,} could not be saved ({reason}); it stays, and the same command "
        "tries again",
        code,
    )
    hosts.say(str(error))
    hosts.leave(error)
    end_now(code)


def _own(folder: Folder, record: RunRecord, hosts: Hosts, last: int) -> tuple[Rescued | None, str]:
    """What this process has kept of a later step, and what there is to say against it."""
    kept = find_rescued(folder, hosts)
    if kept is None or kept.meta.step <= last or kept.created_at != record.created_at:
        return None, ""
    try:
        check_same_run(record, kept.meta, str(place_of(folder, hosts)))
    except CheckpointError as error:
        return None, str(error)
    if (kept.worker, kept.workers) != (hosts.index, hosts.count):
        return kept, f"was kept by process {kept.worker} of {kept.workers}"
    return kept, ""


def _rows_problem(folder: Folder, hosts: Hosts, kept: Rescued) -> list[str]:
    """Put the metric rows that process 0 has kept to the others; returns why that cannot be, if it cannot."""
    path = place_of(folder, hosts) / ROWS if ROWS in kept.files else None
    missing = add_kept_rows(folder, path, kept.meta.step)
    return [f"the metrics of steps {missing} are missing"] if missing else []
