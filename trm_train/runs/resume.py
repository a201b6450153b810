"""Resumes a run from its folder, or discards the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import FOLDER as CHECKPOINTS
from trm_train.checkpoint.manager import CheckpointMeta, Checkpoints, Restored, weights_steps
from trm_train.errors import CheckpointError
from trm_train.metrics import FOLDER as METRICS
from trm_train.runs.record import LOGS, TRACKING_FILE, RunRecord, find_record
from trm_train.runs.status import STATUS_FILE, TESTED, read_status
from trm_train.state import TrainState

FORGETTING = "forgetting"
"""File in a run folder while the run is being discarded."""


def is_being_discarded(folder: Folder) -> bool:
    """Return whether a start with `--resume never` was killed before everything was deleted."""
    return folder.read(FORGETTING) is not None


def continue_record(folder: Folder, record: RunRecord) -> RunRecord:
    """Return the record of a resumed run, with values of its first start; raise CheckpointError if the rows changed."""
    before = find_record(folder)
    if before is None:
        return record
    names = record.config.data.names
    pairs = list(zip(names, before.mixture, record.mixture, strict=True)) if record.mixture else []
    for name, had, has in pairs or [(names[0], before, record)]:
        for what in ("content_digest", "identifiers_digest"):
            if getattr(had, what) != getattr(has, what):
                raise CheckpointError(
                    f"{folder}: began with other rows (dataset {name} had {what} {getattr(had, what)[:12]}, now "
                    f"{getattr(has, what)[:12]}); rebuild that dataset, or start over with --resume never"
                )
    counted = {
        name: getattr(record, name) if getattr(before, name) is None else getattr(before, name)
        for name in ("parameters", "training_flops", "evaluation_flops")
    }
    return replace(
        record,
        created_at=before.created_at,
        extended_to=before.extended_to,
        label=record.label or before.label,
        cpu_threads=before.cpu_threads,
        versions=record.versions
        | {name: of for name, of in before.versions.items() if name.startswith("code of ")},
        **counted,
    )


def restore(folder: Folder, checkpoints: Checkpoints, like: TrainState, record: RunRecord) -> Restored | None:
    """Return the state to resume from, with the layout of `like` (arrays, or shapes with shardings), or None."""
    found = checkpoints.restore(like)
    if found is None:
        status = read_status(folder)
        if status is not None and status.state == "finished" and weights_steps(folder):
            raise CheckpointError(
                f"{record.run}: has finished, and its resume state was removed; evaluate it, or start over with "
                "--resume never"
            )
        return None
    check_same_run(record, found.meta, f"{checkpoints.folder}")
    return found


def meta_at(record: RunRecord, step: int) -> CheckpointMeta:
    """Return the metadata of a checkpoint, which `check_same_run` compares with the run."""
    return CheckpointMeta(
        step=step,
        identity=record.identity,
        content_digest=record.content_digest,
        identifiers_digest=record.identifiers_digest,
        run=record.run,
    )


def check_same_run(record: RunRecord, meta: CheckpointMeta, shown: str) -> None:
    """Raise CheckpointError if a checkpoint belongs to another run or other rows."""
    for what in ("identity", "content_digest", "identifiers_digest"):
        if getattr(meta, what) != getattr(record, what):
            raise CheckpointError(
                f"{shown}: the checkpoint at step {meta.step} is of another configuration or dataset ({what} "
                f"{getattr(meta, what)[:12]}, the run has {getattr(record, what)[:12]}); put its own back, or train "
                "it again with --resume never"
            )
    if meta.run not in ("", record.run):
        raise CheckpointError(
            f"{shown}: the checkpoint at step {meta.step} is of the run {meta.run}; put its own back, or train it "
            "again with --resume never"
        )


def discard(layout: Layout, folder: Folder, record: RunRecord) -> str:
    """Delete the files and results of a run, so that it starts over. If killed, the next start completes this.

    Returns:
        Message on what was deleted; empty if there was nothing.
    """
    status = read_status(folder)
    names = layout.results.names(f"*/experiment={record.experiment}/run={record.run}/*")
    remove_parts(layout, folder, names)
    folder.delete(FORGETTING)
    evaluations = sum(name.startswith("evals/") for name in names)
    gone = [f"{status.step:,} steps"] if status is not None and status.step else []
    return " and ".join(gone + ([f"{evaluations} evaluations"] if evaluations else []))


def remove_parts(layout: Layout, folder: Folder, results: Sequence[str]) -> None:
    """Delete the files of a run except its record, and the given results. If killed, the run starts over."""
    folder.write(FORGETTING, b"")
    for name in (STATUS_FILE, TRACKING_FILE, TESTED):  # status first: it refers to the metrics
        folder.delete(name)
    for part in (CHECKPOINTS, METRICS, LOGS, "heartbeats"):  # the last one: of earlier versions
        folder.store.delete_folder(f"{folder.path}/{part}")
    for name in results:
        layout.results.delete(name)
