"""Status of a running run (`status.json`), and the overview of runs.

The overview of a root has state, progress, speed and accuracy of its runs.
"""

from __future__ import annotations

import fnmatch
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, get_args

from trm_data.errors import no_such
from trm_data.storage.atomic import json_bytes, parse_json, with_digest
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_train.errors import ConfigError
from trm_train.experiments.registry import GLOB, load_experiments
from trm_train.experiments.setting import Setting
from trm_train.experiments.sweep import points_of_runs, read_sweeps
from trm_train.runs.record import (
    RunRecord,
    describe_differences,
    differences_of,
    find_run,
    read_records,
    runs_of,
    setting_of,
)

STATUS_FILE = "status.json"

TESTED = "tested.json"
"""File in a run folder: the result row of the test by a batch."""
State = Literal["running", "finished", "stopped", "failed"]


@dataclass(frozen=True, kw_only=True)
class Status:
    """A run's `status.json`: its progress, for remote monitoring.

    Attributes:
        state: The state; a running process with an old heartbeat is dead.
        step: Number of optimizer steps whose metrics are written.
        total_steps: Number of planned steps.
        examples_per_s: Slots per second between the last two heartbeats with steps between them.
        loss: Mean cross-entropy over slots and cells of the last step (nats); None before the first.
        heartbeat: Time of this status (UTC).
        seconds: Training time over all starts, without compilation (s).
        compile_s: Compilation time of this start (s).
        host: Name of the machine.
        process: Process id.
        started_at: Time of this start (UTC).
        reason: Reason for a failure.
        exact_accuracy: Best exact accuracy of the validations so far (0 to 1); None before the first.
        optimal_share: Largest share of answers as good as the label in the validations so far (0 to 1); None for
            puzzles with one correct answer.
        workers: Number of processes that train it.
    """

    state: State
    step: int
    total_steps: int
    examples_per_s: float
    loss: float | None
    heartbeat: str
    seconds: float
    compile_s: float
    host: str
    process: int
    started_at: str
    reason: str = ""
    exact_accuracy: float | None = None
    optimal_share: float | None = None
    workers: int = 1


def status_bytes(status: Status) -> bytes:
    """Return the content of `status.json`; for one process, in the format from before several were possible."""
    value = asdict(status)
    if status.workers == 1:
        del value["workers"]
    if status.optimal_share is None:
        del value["optimal_share"]
    return json_bytes(with_digest(value))


def read_status(folder: Folder) -> Status | None:
    """Return the status of a run; None if it is missing, damaged, or from an unknown version."""
    content = folder.read(STATUS_FILE)
    return None if content is None else _parse_status(content)


@lru_cache(10_000)
def _parse_status(content: bytes) -> Status | None:
    """Parse a `status.json`. Cached, because a root with thousands of runs is read repeatedly."""
    try:
        value = parse_json(content)
        if "digest" in value and with_digest(value) != value:
            return None
        value.pop("digest", None)
        status = Status(**value)
        if datetime.fromisoformat(status.heartbeat).tzinfo is None:
            return None
    except (ValueError, TypeError, AttributeError):
        return None
    return status if _is_plain(status) else None


def is_dead(status: Status) -> bool:
    """Return whether the process of a run that says it is running has ended; False on another machine."""
    return status.state == "running" and status.host == socket.gethostname() and has_ended(status.process)


def has_ended(process: int) -> bool:
    """Return whether a process of this machine has ended."""
    if process < 1:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    return False


def written_steps(folder: Folder) -> int:
    """Return the step up to which an ended run has written its metrics; 0 if it may be running."""
    status = read_status(folder)
    return status.step if status is not None and status.state != "running" else 0


def _is_plain(status: Status) -> bool:
    """Return whether every value has the type and range that a table column requires."""
    whole = (status.step, status.total_steps, status.process, status.workers)
    numbers = (
        status.examples_per_s,
        status.seconds,
        status.compile_s,
        0.0 if status.loss is None else status.loss,
        0.0 if status.exact_accuracy is None else status.exact_accuracy,
        0.0 if status.optimal_share is None else status.optimal_share,
    )
    return (
        status.state in get_args(State)
        and all(type(value) is int and 0 <= value < 2**63 for value in whole)
        and all(type(value) in (int, float) for value in numbers)
    )


def now() -> str:
    """Return the current time (UTC) in the format of logs and status."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


STALLED_S = 300.0
"""Heartbeat timeout after which a running run counts as stalled or dead (s)."""

Condition = Literal["running", "done", "stopped", "stalled", "failed", "new", "unreadable"]


@dataclass(frozen=True)
class RunOverview:
    """Summary of a run, read from its folder.

    Attributes:
        run: Name of the run.
        folder: Folder of the run.
        record: Record of the run; None if it cannot be read.
        status: Last status; None before the first report.
        condition: Present condition, derived from the status and the time.
        problem: Reason for a failure, or for an unreadable record.
        differs: Differences from the experiment's present definition; None if unknown.
        sweeps: What varies, by name of each sweep that it belongs to.
    """

    run: str
    folder: Folder
    record: RunRecord | None
    status: Status | None
    condition: Condition
    problem: str = ""
    differs: str | None = None
    sweeps: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def dataset(self) -> str:
        """Name of the training dataset; empty if the record cannot be read."""
        return "" if self.record is None else self.record.config.data.label

    @property
    def seconds_left(self) -> float | None:
        """Estimated time to the last step at the recent speed (s); None if unknown."""
        if self.record is None or self.status is None or not self.status.examples_per_s:
            return None
        left = (self.status.total_steps - self.status.step) * self.record.config.data.global_batch_size
        return left / self.status.examples_per_s


def overview(layout: Layout) -> list[RunOverview]:
    """Return all runs under a root, in the order of their folders."""
    found = read_records(layout)
    statuses = layout.store.each(read_status, [folder for folder, _ in found])
    now = datetime.now(UTC)
    runs = [
        _overview(folder, record, status, now)
        for (folder, record), status in zip(found, statuses, strict=True)
    ]
    known = [run.record for run in runs if run.record is not None]
    differ = iter(map(describe_differences, differences_of(known)))
    points = points_of_runs(read_sweeps(layout)[0])
    return [
        run
        if run.record is None
        else replace(
            run,
            differs=next(differ),
            sweeps=points.get((run.record.experiment, run.record.identity), {}),
        )
        for run in runs
    ]


def _overview(
    folder: Folder, record: RunRecord | ConfigError, status: Status | None, now: datetime
) -> RunOverview:
    if not isinstance(record, RunRecord):
        return RunOverview(folder.name, folder, None, status, "unreadable", str(record))
    problem = "" if status is None else status.reason
    ends_at = 0 if record.config.initial.imported else record.total_steps
    return RunOverview(record.run, folder, record, status, condition(status, ends_at, now), problem)


def condition(status: Status | None, total_steps: int, now: datetime) -> Condition:
    """Return the condition that a status means at a given time."""
    if status is None:
        return "new"
    if status.state == "finished":
        return "done" if status.step >= total_steps else "stopped"
    if status.state != "running":
        return status.state
    silent = (now - datetime.fromisoformat(status.heartbeat)).total_seconds()
    return "stalled" if silent > STALLED_S or is_dead(status) else "running"


def choose_runs(runs: list[RunOverview], patterns: Sequence[str]) -> list[RunOverview]:
    """Return the runs whose name, experiment, alias or sweep matches a pattern; all runs if there are no patterns.

    Args:
        runs: All runs.
        patterns: Names or globs.
    """
    if not patterns:
        return runs
    chosen = [
        one
        for one in runs
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns for name in _names(one))
    ]
    if not chosen:
        said, names = f"no run is called {' or '.join(patterns)}", (_names(one) for one in runs)
        known = dict.fromkeys(name for of_run in names for name in of_run)
        raise ConfigError(no_such(said, patterns[0], known, "trm-train status"))
    return chosen


def _names(one: RunOverview) -> list[str]:
    names = [one.run, one.folder.path.split("/")[-2], *one.sweeps]
    setting = None if one.record is None else setting_of(one.record)
    if setting is not None:
        there = (item for item in load_experiments().values() if setting in item.settings)
        names += [item.name for item in there if item.alias_of(setting) == names[1]]
    return names


def find_runs(layout: Layout, references: Sequence[str], setting: Setting | None = None) -> list[Folder]:
    """Return the folders of runs, without duplicates, in the order of the references.

    Args:
        layout: The root.
        references: Names or folders of runs, experiments (the run that each defines), or globs of either (`exp01*`).
        setting: Only runs at this setting; run names and folders ignore it.
    """
    found: dict[str, Folder] = {}
    for reference in references:
        for run in (
            _matching(layout, reference, setting)
            if is_pattern(reference)
            else [find_run(layout, reference, setting)]
        ):
            found[run.place] = run
    return list(found.values())


def is_pattern(reference: str) -> bool:
    """Return whether a reference is a glob."""
    return bool(set(reference) & GLOB)


def _matching(layout: Layout, pattern: str, setting: Setting | None) -> list[Folder]:
    """Return runs whose name or experiment matches a glob, including runs with unreadable records."""
    records = {run.place: (run, record) for run, record in read_records(layout)}
    runs = [run for run, _ in records.values()]
    readable = [run for run, record in records.values() if isinstance(record, RunRecord)]
    found = [
        run
        for run in runs
        if any(fnmatch.fnmatchcase(name, pattern) for name in (run.name, run.path.split("/")[-2]))
    ]
    for name in load_experiments():  # also match aliases
        if fnmatch.fnmatchcase(name, pattern):
            found += runs_of(readable, name, setting)
    if setting is not None:
        found = [
            run
            for run in found
            if not isinstance(record := records[run.place][1], RunRecord) or setting_of(record) == setting
        ]
    if not found:
        where = "" if setting is None else f" at {setting}"
        said = f"no run fits {pattern!r} under {layout.runs.place}{where}"
        raise ConfigError(no_such(said, pattern, [run.name for run in runs], "trm-train status"))
    return found
