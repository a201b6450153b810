"""How a run goes on from what it has, or forgets it."""

from __future__ import annotations

from dataclasses import replace

from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import FOLDER as CHECKPOINTS
from trm_train.checkpoint.manager import Checkpoints
from trm_train.errors import CheckpointError
from trm_train.metrics.table import FOLDER as METRICS
from trm_train.run.observe import LOGS, STATUS_FILE, read_status
from trm_train.run.record import RunRecord, find_record
from trm_train.state import TrainState

FORGETTING = "forgetting"
"""In a run's folder while it is being forgotten."""


def is_being_forgotten(folder: Folder) -> bool:
    """Whether a start with `--resume never` was killed before all was removed."""
    return folder.read(FORGETTING) is not None


def continue_record(folder: Folder, record: RunRecord) -> RunRecord:
    """The record of a run that goes on: it began when it began, and on the rows it began with.

    Raises:
        ConfigError: The record that is there cannot be read.
        CheckpointError: The dataset has other rows or identifiers now.
    """
    before = find_record(folder)
    if before is None:
        return record
    for what in ("content_digest", "identifiers_digest"):
        if getattr(before, what) != getattr(record, what):
            raise CheckpointError(
                f"{folder}: began with other rows (dataset {'+'.join(record.config.data.names)} had {what} "
                f"{getattr(before, what)[:12]}, now {getattr(record, what)[:12]}); rebuild that dataset, or "
                "start anew with --resume never"
            )
    return replace(record, created_at=before.created_at, extended_to=before.extended_to)


def restore(checkpoints: Checkpoints, state: TrainState, record: RunRecord) -> tuple[TrainState, int]:
    """The state to go on from, and its step.

    Raises:
        CheckpointError: The newest checkpoint cannot be read, or is of another configuration or dataset.
    """
    if checkpoints.latest_step() is None:
        return state, 0
    restored, meta = checkpoints.restore(state)
    expected = (record.identity, record.content_digest, record.identifiers_digest)
    if (meta.identity, meta.content_digest, meta.identifiers_digest) != expected:
        raise CheckpointError(
            f"{checkpoints.folder}: the checkpoint at step {meta.step} is of another configuration or dataset; "
            "start anew with --resume never"
        )
    return restored, meta.step


def forget(layout: Layout, folder: Folder, record: RunRecord) -> str:
    """Remove what a run has, its results too, so that it starts anew; after a kill the next start goes on with it.

    Returns:
        What was removed, for people; empty if there was nothing.
    """
    status = read_status(folder)
    folder.write(FORGETTING, b"")
    for part in (CHECKPOINTS, METRICS, LOGS):
        folder.store.delete_folder(f"{folder.path}/{part}")
    folder.delete(STATUS_FILE)
    results = layout.results
    names = results.names(f"*/experiment={record.experiment}/run={record.run}/*")
    for name in names:
        results.delete(name)
    folder.delete(FORGETTING)
    evaluations = sum(name.startswith("evals/") for name in names)
    gone = [f"{status.step:,} steps"] if status is not None and status.step else []
    return " and ".join(gone + ([f"{evaluations} evaluations"] if evaluations else []))
