"""`trm-train prune` and `rm`: what takes room and is not needed, removed after asking."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from trm_data.command import Exit, Json, Root, say_what_is_left_out
from trm_data.commands.common import megabytes
from trm_data.errors import DataError
from trm_data.storage.root import resolve_root
from trm_data.storage.store import Folder


@dataclass(frozen=True, kw_only=True)
class Prune:
    """Remove checkpoints of runs, after asking: all weights but the newest and the best, and those that are asked for.

    Results stay, and so does what a run goes on from, unless --no-resume is given.

    For example:

      trm-train prune --dry-run
      trm-train prune 'exp01*' --keep-every 2000 --yes
    """

    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="[RUN ...]", help_behavior_hint="")] = ()
    """Names of runs or experiments, or globs; all if none is named."""
    keep_last: int = 1
    """Newest weights that stay, of each run."""
    no_best: bool = False
    """The weights with the best validation go too."""
    keep_every: int = 0
    """Weights of every so many steps stay."""
    no_resume: bool = False
    """Of finished runs also what they could be extended from goes."""
    dry_run: bool = False
    """Say what would be removed."""
    yes: bool = False
    """Do not ask."""
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Plan, ask, remove."""
        from trm_train.runs.overview import choose_runs, overview
        from trm_train.runs.prune import Policy, Pruned, plan_pruning, prune_run

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
                resume = " and what it goes on from" if plan.resume_removed else ""
                steps = ", ".join(f"{step:,}" for step in plan.removed) or "none"
                print(f"{plan.run}: weights of steps {steps}{resume}, {megabytes(plan.size_bytes)}")
        size_bytes = sum(plan.size_bytes for _, plan in work)
        if self.dry_run or not work:
            if self.json:
                print(json.dumps([asdict(plan) for _, plan in planned], indent=1))
            else:
                print(f"would free {megabytes(size_bytes)}" if work else "nothing to remove")
            return say_what_is_left_out("trm-train", problems, skip=False)
        if not self.yes and not _agreed("prune", f"remove that ({megabytes(size_bytes)})"):
            return Exit.FOUND if sys.stdin.isatty() else Exit.ERROR
        done: list[Pruned] = []
        for run, _ in work:
            try:
                done.append(prune_run(run, policy))
            except DataError as error:  # one that is being trained, among others
                problems.append(str(error))
        if self.json:
            print(json.dumps([asdict(plan) for plan in done], indent=1))
        else:
            print(f"{megabytes(sum(plan.size_bytes for plan in done))} freed")
        return say_what_is_left_out("trm-train", problems, skip=False)


@dataclass(frozen=True, kw_only=True)
class Remove:
    """Remove runs with all they have, their results too, after asking.

    For example:

      trm-train rm quickstart-2626ad84-s0
    """

    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="RUN [RUN ...]", help_behavior_hint="")]
    """Names of runs, or experiments: the run that each defines."""
    yes: bool = False
    """Do not ask."""
    dry_run: bool = False
    """Say what would be removed; remove nothing."""
    root: Root = None

    def run(self) -> int:
        """Ask, then remove them."""
        from trm_train.errors import ConfigError
        from trm_train.runs.prune import remove_run, size_of_run
        from trm_train.runs.record import find_run

        if not self.runs:
            raise ConfigError("name runs: trm-train rm RUN ... (trm-train status lists them)")
        layout = resolve_root(self.root)
        found: dict[str, Folder] = {}
        for name in self.runs:
            run = find_run(layout, name)
            if name not in (run.name, run.path.split("/")[-2]) and "/" not in name:
                raise ConfigError(
                    f"{name} has no run of its own; to remove that of others too: rm {run.name}"
                )
            found[run.name] = run
        sizes = {name: size_of_run(layout, run) for name, run in found.items()}
        shown = ", ".join(f"{name} ({megabytes(size)})" for name, size in sizes.items())
        if self.dry_run:
            print(f"would remove {shown} with results, under {layout.place}; nothing was removed")
            return Exit.DONE
        if not self.yes and not _agreed("rm", f"remove {shown} with results, under {layout.place}"):
            return Exit.FOUND if sys.stdin.isatty() else Exit.ERROR
        for name, run in found.items():
            remove_run(layout, run)
            print(f"{name}: removed, {megabytes(sizes[name])} freed")
        return Exit.DONE


def _agreed(command: str, what: str) -> bool:
    """Whether a person says yes; nobody to ask is a no that says so."""
    if not sys.stdin.isatty():
        print(f"trm-train: {command}: nobody to ask; add --yes to {what}", file=sys.stderr)
        return False
    if input(f"{what}? [y/N] ").strip().lower() in ("y", "yes"):
        return True
    print("nothing was removed")
    return False
