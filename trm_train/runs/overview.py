"""Overview of the runs of a root: state, progress, speed, accuracy."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from trm_data.errors import no_such
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
    read_record,
    read_records,
    runs_of,
    setting_of,
)
from trm_train.runs.status import Heartbeat, Status, is_dead, read_heartbeats, read_status

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
        workers: Heartbeats of the processes, if several train it now.
        differs: Differences from the experiment's present definition; None if unknown.
        sweeps: What varies, by name of each sweep that it belongs to.
    """

    run: str
    folder: Folder
    record: RunRecord | None
    status: Status | None
    condition: Condition
    problem: str = ""
    workers: tuple[Heartbeat, ...] = ()
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
    runs = [
        run
        if run.record is None
        else replace(
            run,
            differs=next(differ),
            sweeps=points.get((run.record.experiment, run.record.identity), {}),
        )
        for run in runs
    ]
    return [
        replace(run, workers=tuple(read_heartbeats(run.folder)))
        if run.status is not None and run.status.workers > 1 and run.condition in ("running", "stalled")
        else run
        for run in runs
    ]


def overview_of(folder: Folder) -> RunOverview:
    """Return the overview of one run."""
    record: RunRecord | ConfigError
    try:
        record = read_record(folder)
    except ConfigError as error:
        record = error
    found = _overview(folder, record, read_status(folder), datetime.now(UTC))
    if found.record is None:
        return found
    (differs,) = differences_of([found.record])
    return replace(found, differs=describe_differences(differs))


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


def choose_runs(
    found: list[RunOverview], patterns: Sequence[str], *, aliases: bool = False
) -> list[RunOverview]:
    """Return the runs whose name, experiment or sweep matches a pattern; all runs if there are no patterns.

    Args:
        found: All runs.
        patterns: Names or globs.
        aliases: Also match the aliases: experiments that share the run at its setting.
    """
    if not patterns:
        return found
    chosen = [
        one
        for one in found
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns for name in _names(one, aliases))
    ]
    if not chosen:
        said = f"no run is called {' or '.join(patterns)}"
        raise ConfigError(no_such(said, patterns[0], [one.run for one in found], "trm-train status"))
    return chosen


def _names(one: RunOverview, aliases: bool) -> list[str]:
    names = [one.run, one.folder.path.split("/")[-2], *one.sweeps]
    setting = None if one.record is None or not aliases else setting_of(one.record)
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
