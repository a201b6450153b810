"""Deletes checkpoints that a policy does not keep."""

from __future__ import annotations

from dataclasses import dataclass

from trm_data.storage.lease import leased, locked
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import COMMITTED, weights_steps
from trm_train.checkpoint.manager import FOLDER as CHECKPOINTS
from trm_train.errors import ConfigError
from trm_train.metrics.table import read_metrics, totals
from trm_train.runs.status import read_status, written_steps


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Policy that selects the checkpoints to keep.

    Attributes:
        last: Number of the newest weights to keep; at least 1.
        best: Whether to keep the weights with the best validation.
        every: Keep the weights of every N-th step; 0 for none.
        resume: Whether to keep the resume state of finished runs.
    """

    last: int = 1
    best: bool = True
    every: int = 0
    resume: bool = True

    def check(self) -> None:
        """Raise ConfigError if the policy could leave a run without weights."""
        if self.last < 1 or self.every < 0:
            raise ConfigError(
                f"--keep-last at least 1, got {self.last}; --keep-every at least 0, got {self.every}"
            )


@dataclass(frozen=True)
class Pruned:
    """Result of pruning one run, done or planned.

    Attributes:
        run: Name of the run.
        kept: Steps whose weights are kept.
        removed: Steps whose weights are deleted.
        resume_removed: Whether the resume state is deleted too.
        size_bytes: Space that this frees.
    """

    run: str
    kept: list[int]
    removed: list[int]
    resume_removed: bool
    size_bytes: int


def plan_pruning(run: Folder, policy: Policy) -> Pruned:
    """Return what a policy would delete from a run."""
    steps = weights_steps(run)
    kept = set(steps[-policy.last :])
    if policy.every:
        kept |= {step for step in steps if step % policy.every == 0}
    if policy.best:
        rows = totals(read_metrics(run, written_steps(run))).to_pylist()
        validated = [
            row for row in rows if row["split"] == "validation" and row["step"] in steps and row["count"]
        ]
        if validated:
            kept.add(max(validated, key=lambda row: (row["exact_count"] / row["count"], row["step"]))["step"])
    removed = [step for step in steps if step not in kept]
    status = read_status(run)
    ended = not policy.resume and status is not None and status.state == "finished"
    ended = ended and bool(run.within(f"{CHECKPOINTS}/resume").names(f"*/{COMMITTED}"))
    folders = [f"{CHECKPOINTS}/weights/{step}" for step in removed] + (
        [f"{CHECKPOINTS}/resume"] if ended else []
    )
    size_bytes = sum(run.store.size_bytes(f"{run.path}/{folder}") for folder in folders)
    return Pruned(run.name, sorted(kept), removed, ended, size_bytes)


def prune_run(run: Folder, policy: Policy) -> Pruned:
    """Delete what a policy does not keep; fail if the run is being trained."""
    with (
        locked(run, f"{run.name}: is being trained; wait for it, or stop it"),
        leased(run, f"run {run.name}"),
    ):
        pruned = plan_pruning(run, policy)  # plan again: the run may have continued since the first plan
        folders = [f"weights/{step}" for step in pruned.removed]
        if pruned.resume_removed:
            there = run.within(f"{CHECKPOINTS}/resume").names(f"*/{COMMITTED}")
            folders += [f"resume/{name.split('/')[0]}" for name in there]
        for folder in folders:
            # Delete the commit marker first, so that a half-deleted checkpoint does not look complete.
            run.delete(f"{CHECKPOINTS}/{folder}/{COMMITTED}")
            run.store.delete_folder(f"{run.path}/{CHECKPOINTS}/{folder}")
    return pruned
