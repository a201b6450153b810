"""Deletes checkpoints that a policy does not keep, and whole runs with their results."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trm_data.storage.lease import leased, locked
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import COMMITTED, weights_steps
from trm_train.checkpoint.manager import FOLDER as CHECKPOINTS
from trm_train.errors import ConfigError
from trm_train.metrics.table import read_metrics, totals
from trm_train.runs.record import CONFIG_FILE
from trm_train.runs.resume import remove_parts
from trm_train.runs.status import read_status, written_steps

NAME = re.compile(r"[A-Za-z0-9_-]{1,150}")
"""Valid name of a run and of its parent folders."""


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


def size_of_run(layout: Layout, run: Folder) -> int:
    """Return the space that removing a run and its results frees (bytes)."""
    found = layout.results.names(_results_of(run))
    tables = {name.rpartition("/")[0] for name in found}
    results = sum(layout.results.store.size_bytes(f"{layout.results.path}/{table}") for table in tables)
    return run.store.size_bytes(run.path) + results


def remove_run(layout: Layout, run: Folder) -> None:
    """Remove a run and its results, the record last; fail if the run is being trained."""
    with (
        locked(run, f"{run.name}: is being trained; wait for it, or stop it"),
        leased(run, f"run {run.name}"),
    ):
        remove_parts(layout, run, layout.results.names(_results_of(run)))
        for name in sorted(run.names(), key=lambda name: name == CONFIG_FILE):
            run.delete(name)
    run.store.delete_folder(run.path)


def _results_of(run: Folder) -> str:
    """Return the glob of the files with results of a run."""
    parts = run.path.split("/")
    if len(parts) != 4 or parts[0] != "runs" or not all(NAME.fullmatch(part) for part in parts):
        raise ConfigError(
            f"{run} is not a run of this root. `trm-train status` lists them; --root chooses another root."
        )
    return f"*/experiment={parts[2]}/run={parts[3]}/*"
