"""Copies runs from one root to another: `trm-train sync`, and the archive step after a run.

The last file of a checkpoint is copied after its others, and config.json after everything. So an interrupted copy is
either not yet a run, or a run without its incomplete checkpoints. A note names them; the same command resumes the copy.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from trm_data.errors import Note, SpecError
from trm_data.show.progress import NoProgress, Progress
from trm_data.storage.copy import copy_files
from trm_data.storage.digests import checked_files
from trm_data.storage.lease import leased, locked
from trm_data.storage.root import Layout
from trm_data.storage.store import Check, Folder
from trm_train.checkpoint.manager import COMMITTED, COPYING, saved_steps
from trm_train.checkpoint.manager import FOLDER as CHECKPOINTS
from trm_train.errors import ConfigError, ForeignRunError
from trm_train.metrics.table import FOLDER as METRICS
from trm_train.metrics.table import missing_steps, part_names
from trm_train.runs.record import CONFIG_FILE, find_record, find_run, list_runs, read_record
from trm_train.runs.status import STATUS_FILE, written_steps

LAST = (rf"{CHECKPOINTS}/.*{COMMITTED}", r"status\.json", CONFIG_FILE.replace(".", r"\."))


@dataclass(frozen=True)
class SyncedRun:
    """Result of copying one run.

    Attributes:
        run: Name of the run.
        files_copied: Number of copied files.
        files_kept: Number of files that already existed.
        bytes_copied: Size of the copied files.
        seconds: Duration (s).
    """

    run: str
    files_copied: int
    files_kept: int
    bytes_copied: int
    seconds: float


def sync_runs(
    source: Layout,
    target: Layout,
    runs: list[str] | None = None,
    progress: Progress | None = None,
    foreign: list[str] | None = None,
) -> list[SyncedRun]:
    """Copy runs.

    Args:
        source: Root to copy from.
        target: Root to copy to.
        runs: Names or experiments; None or empty for all runs of the source.
        progress: Progress display.
        foreign: List that receives a line for each skipped run of another version, if `runs` is empty; None raises.

    Raises:
        SpecError: The roots are the same.
        ConfigError: The source has no such run, or the target has another run of this name or a later state of it.
        BusyError: The run is being trained at the target.
        CorruptFileError: A metrics file of the source has changed since it was written.
        BuildError: A file could not be written.
    """
    if source.place == target.place:
        raise SpecError(f"{source.place}: source and target are the same root")
    folders = [find_run(source, run) for run in runs] if runs else list_runs(source)
    done: list[SyncedRun] = []
    for folder in folders:
        try:
            done.append(sync_run(folder, target, progress or NoProgress()))
        except ForeignRunError as error:
            if runs or foreign is None:
                raise
            foreign.append(Note(error))
    return done


def sync_run(source: Folder, target: Layout, progress: Progress) -> SyncedRun:
    """Copy one run; see `sync_runs`."""
    begun, record = time.perf_counter(), read_record(source)
    folder = target.runs.within(f"{record.group}/{record.experiment}/{record.run}")
    with (
        locked(folder, f"{record.run}: is being written at {target.place}; wait for it"),
        leased(folder, f"run {record.run}") as lease,
    ):
        there = find_record(folder)
        if there is not None and (there.identity, there.content_digest) != (
            record.identity,
            record.content_digest,
        ):
            raise ConfigError(
                f"{folder}: is another run with this name. Remove it first, or choose another root"
            )
        ahead = max(saved_steps(folder), default=0)
        if ahead > max(saved_steps(source), default=0):
            raise ConfigError(
                f"{folder}: is at step {ahead:,}, ahead of {source}, and is not overwritten. Copy the other way, or "
                f"remove it first"
            )
        folder.store.remove_temporary(folder.path)
        # Read the status before listing files: a later status may refer to metrics files that are not listed.
        status = source.read(STATUS_FILE)
        names = [name for name in source.names() if name != STATUS_FILE]
        parts = part_names(source)
        checked_files(source.within(METRICS), parts)
        gaps = missing_steps(parts, written_steps(source))
        progress.start(f"copy {record.run}", len(names), "files")
        folder.write(COPYING, b"")
        copied = copy_files(source, folder, names, progress, lease.check, last=LAST)
        if status is not None and folder.read(STATUS_FILE) != status:
            folder.write(STATUS_FILE, status, lease.check)
        # If the source has lost metrics, the target may have the only copy.
        _drop(source, folder, [CHECKPOINTS] if gaps else [CHECKPOINTS, METRICS], lease.check)
        folder.delete(COPYING)
    return SyncedRun(
        record.run,
        copied.files_copied,
        copied.files_kept,
        copied.bytes_copied,
        time.perf_counter() - begun,
    )


def _drop(source: Folder, target: Folder, kinds: Sequence[str], check: Check) -> None:
    """Delete what the source has deleted: whole checkpoints, and metrics files (otherwise steps would occur twice)."""
    kept = set(source.names())
    for name in target.names():
        if name in kept or name.split("/")[0] not in kinds:
            continue
        parts = name.split("/")
        step = "/".join(parts[:3])
        if parts[0] == CHECKPOINTS and not any(other.startswith(f"{step}/") for other in kept):
            target.store.delete_folder(f"{target.path}/{step}", check=check)
        else:
            target.delete(name, check)
