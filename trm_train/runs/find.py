"""Several runs by what a user calls them."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from trm_data.closest import no_such
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_train.errors import ConfigError
from trm_train.experiments.registry import GLOB, load_experiments
from trm_train.experiments.setting import Setting
from trm_train.runs.record import RunRecord, find_run, read_records, runs_of, setting_of


def find_runs(layout: Layout, references: Sequence[str], setting: Setting | None = None) -> list[Folder]:
    """The folders of runs, each once, in the order of the references.

    Args:
        layout: The root.
        references: Names or folders of runs, experiments (the run that each defines), or globs of either (`exp01*`).
        setting: Only runs at this setting, but for those that are named themselves.

    Raises:
        ConfigError: A reference names none, or an experiment has several.
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
    """Whether it names any runs that fit, instead of one."""
    return bool(set(reference) & GLOB)


def _matching(layout: Layout, pattern: str, setting: Setting | None) -> list[Folder]:
    """Runs whose name or experiment a pattern fits; also those whose records cannot be read."""
    records = {run.place: (run, record) for run, record in read_records(layout)}
    runs = [run for run, _ in records.values()]
    readable = [run for run, record in records.values() if isinstance(record, RunRecord)]
    found = [
        run
        for run in runs
        if any(fnmatch.fnmatchcase(name, pattern) for name in (run.name, run.path.split("/")[-2]))
    ]
    for name in load_experiments():  # an alias is found by its name too
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
