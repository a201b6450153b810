"""`trm-train prune`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from trm_data.command import Exit, Json, Root, confirm, emit, say_what_is_left_out
from trm_data.commands.common import megabytes
from trm_data.errors import DataError
from trm_data.storage.root import resolve_root
from trm_data.storage.store import Folder


@dataclass(frozen=True, kw_only=True)
class Prune:
    """Remove old checkpoints of runs, after confirmation: all weights except the newest and the best.

    Results stay, and so does the resume state, unless --no-resume is given.

    For example:

      trm-train prune --dry-run
      trm-train prune 'exp01*' --keep-every 2000 --yes
    """

    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="[RUN ...]", help_behavior_hint="")] = ()
    """Names of runs or experiments, or globs; all if none is named."""
    keep_last: int = 1
    """Number of newest weights to keep of each run."""
    no_best: bool = False
    """Also remove the weights with the best validation."""
    keep_every: int = 0
    """Keep the weights of every N-th step."""
    no_resume: bool = False
    """Also remove the resume state of finished runs; they cannot be extended then."""
    dry_run: bool = False
    """Print what would be removed; remove nothing."""
    yes: bool = False
    """Skip the confirmation."""
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Plan, confirm and remove."""
        from trm_train.runs.resume import Policy, Pruned, plan_pruning, prune_run
        from trm_train.runs.status import choose_runs, overview

        policy = Policy(
            last=self.keep_last, best=not self.no_best, every=self.keep_every, resume=not self.no_resume
        )
        policy.check()
        layout = resolve_root(self.root)
        runs = [one.folder for one in choose_runs(overview(layout), self.runs) if one.record is not None]
        planned: list[tuple[Folder, Pruned]] = []
        problems: list[str] = []
        for run in runs:
            try:
                planned.append((run, plan_pruning(run, policy)))
            except DataError as error:
                problems.append(str(error))
        work = [(run, plan) for run, plan in planned if plan.removed or plan.resume_removed]
        if not self.json:
            for _, plan in work:
                resume = " and its resume state" if plan.resume_removed else ""
                steps = ", ".join(f"{step:,}" for step in plan.removed) or "none"
                print(f"{plan.run}: weights of steps {steps}{resume}, {megabytes(plan.size_bytes)}")
        size_bytes = sum(plan.size_bytes for _, plan in work)
        if self.dry_run or not work:
            said = f"would free {megabytes(size_bytes)}" if work else "nothing to remove"
            emit([plan for _, plan in planned], said, as_json=self.json)
            return say_what_is_left_out("trm-train", problems, skip=False)
        if not self.yes and not confirm("trm-train", "prune", f"remove that ({megabytes(size_bytes)})"):
            return Exit.FOUND if sys.stdin.isatty() else Exit.ERROR
        done: list[Pruned] = []
        for run, _ in work:
            try:
                done.append(prune_run(run, policy))
            except DataError as error:  # for example, the run is being trained
                problems.append(str(error))
        emit(done, f"{megabytes(sum(plan.size_bytes for plan in done))} freed", as_json=self.json)
        return say_what_is_left_out("trm-train", problems, skip=False)
