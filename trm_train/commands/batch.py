"""`trm-train batch`: many runs with one command."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional, arg

from trm_data.command import WIDE_SHOWS, Json, Root, Wide, emit
from trm_data.commands.common import duration
from trm_data.errors import Exit
from trm_data.storage.root import Layout, resolve_root
from trm_train.commands.common import (
    DataOption,
    ScaleOption,
    counted,
    percent,
    refuse_dataset_as_experiment,
)
from trm_train.config.overrides import parse_config
from trm_train.config.run import RunConfig
from trm_train.errors import ConfigError
from trm_train.experiments.dataset import build_missing
from trm_train.experiments.registry import Experiment, select_experiments
from trm_train.experiments.setting import parse_setting
from trm_train.experiments.sweep import parse_grid, write_sweep

if TYPE_CHECKING:
    from trm_train.batch import Job, PlannedRun
    from trm_train.experiments.sweep import Sweep


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Train and evaluate many experiments.

    Each run is a process with its own log; `trm-eval run` evaluates its last checkpoint. On Ctrl-C the runs save a
    checkpoint; the same command resumes and skips finished runs. Options of the configuration (--optim.lr 1e-3) apply
    to every run. `trm-train status` shows the progress.

    For example:

      trm-train batch exp04a --scale tiny --dry-run
      trm-train batch 'exp*' 'contrib0[12]*' --scale tiny --data generated --continue-on-failure
      trm-train batch exp07 exp09 --scale tiny --seeds 0,1,2 --jobs 2
      trm-train batch quickstart --sweep optim.lr=1e-3,4e-3 --sweep model.hidden_size=64,96 --seeds 0,1,2 --name rates
    """

    patterns: Annotated[
        Positional[tuple[str, ...]], arg(metavar="PATTERN [PATTERN ...]", help_behavior_hint="")
    ]
    """Experiments: names, groups, beginnings of names, or globs like 'exp0[1-3]*'."""
    scale: ScaleOption = None
    data: DataOption = None
    seeds: Annotated[str, arg(metavar="SEED,...")] = "0"
    """Seeds of every experiment."""
    sweep: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        arg(metavar="OPTION=VALUE,...", help_behavior_hint=""),
    ] = ()
    """Train one experiment at every value of an option of the configuration; several --sweep at every combination."""
    name: Annotated[str, arg(metavar="NAME", help_behavior_hint="")] = ""
    """Name of the sweep, for reports, queries and status (default: made of the experiment and the options)."""
    jobs: int = 1
    """Parallel runs, each on its own GPUs, on its part of a GPU's memory or, without any, on its own cores."""
    continue_on_failure: bool = False
    """Start further runs after a failure; the exit code is still 1."""
    dry_run: bool = False
    """Print the plan: runs, steps, data, cost."""
    no_build: bool = False
    """Build no dataset; if one is missing, print the commands that build it and fail."""
    limit: int = 0
    """Maximum rows of every evaluation (0: all)."""
    log_dir: Annotated[str | None, arg(metavar="DIR", help_behavior_hint="")] = None
    """Folder of logs (default: logs/ under the root if that is local, else here)."""
    tracking: Literal["wandb", "none"] = "none"
    """Log metrics to wandb."""
    wide: Wide = False
    root: Root = None
    json: Json = False

    def run(self, overrides: Sequence[str]) -> int:
        """Plan, build datasets, run, and print a summary; return the exit code.

        Args:
            overrides: Options of the configuration, for every run.
        """
        from trm_train.batch import Pool, make_jobs, missing_datasets, shares

        self._check()
        layout = resolve_root(self.root)
        refuse_dataset_as_experiment("trm-train batch", self.patterns, layout)
        items = select_experiments(self.patterns, parse_setting(self.scale, self.data))
        sweep, runs = self._plan(items, layout, overrides)
        each = shares(self.jobs)
        jobs = make_jobs(runs, layout, self.limit)
        missing = missing_datasets([job.planned for job in jobs if job.state != "done"], layout)
        if self.dry_run:
            facts = [_facts(job, missing) for job in jobs]
            emit(facts, partial(_print_plan, facts, missing, wide=self.wide), as_json=self.json)
            return Exit.DONE
        if missing and self.no_build:
            commands = "\n".join(f"  trm-data build {name}" for name in missing)
            raise ConfigError(f"datasets are missing, and --no-build is set. Build them:\n{commands}")
        for name in missing:
            build_missing(name, layout, self.root, quiet=self.json)
        if sweep is not None:
            sweep, _ = self._plan(items, layout, overrides)  # the numbers of the datasets are known now
            assert sweep is not None
            write_sweep(sweep, layout)
        logs = Path(layout.machine) / "logs" if self.log_dir is None else Path(self.log_dir).expanduser()
        logs.mkdir(parents=True, exist_ok=True)
        pool = Pool(
            layout=layout,
            overrides=overrides,
            shares=each,
            logs=logs,
            tracking=self.tracking,
            limit=self.limit,
            go_on=self.continue_on_failure,
            say=lambda text: None if self.json else print(text, file=sys.stderr, flush=True),
        )
        try:
            pool.run(jobs)
        finally:
            rows = [_facts(job, ()) for job in jobs]
            emit(rows, partial(_print_summary, rows, wide=self.wide), as_json=self.json)
            sys.stdout.flush()
        return Exit.DONE if all(job.state == "done" for job in jobs) else Exit.FOUND

    def _plan(
        self,
        items: Sequence[Experiment],
        layout: Layout,
        overrides: Sequence[str],
    ) -> tuple[Sweep | None, list[PlannedRun]]:
        """Return the runs, and the sweep if there is one."""
        from trm_train.batch import plan_batch, plan_sweep

        seeds = parse_seeds(self.seeds)

        def change(config: RunConfig) -> RunConfig:
            return parse_config(config, list(overrides)) if overrides else config

        if not self.sweep:
            return None, plan_batch(items, seeds, layout, change)
        grid = parse_grid(self.sweep)
        if len(items) != 1:
            raise ConfigError(
                f"--sweep: varies one experiment (got {', '.join(item.name for item in items[:6])}). Name one, or use "
                "a batch for each."
            )
        for word in overrides:
            key = word.partition("=")[0].removeprefix("--").replace("-", "_")
            if key in grid:
                raise ConfigError(
                    f"--sweep {key}: also set for all runs (got {word}). Leave out one of them."
                )
        return plan_sweep(self.name, items[0], grid, seeds, layout, change)

    def _check(self) -> None:
        if not self.patterns:
            raise ConfigError("no experiments named (expected trm-train batch PATTERN ...; '*' is all)")
        if self.name and not self.sweep:
            raise ConfigError("--name: names a sweep. Add --sweep OPTION=VALUE,..., or leave it out.")
        if self.jobs < 1:
            raise ConfigError(f"--jobs {self.jobs}: expected at least 1")
        if self.limit < 0:
            raise ConfigError(f"--limit {self.limit}: at least 0, which is all")


def parse_seeds(text: str) -> list[int]:
    """Parse seeds separated by commas; remove duplicates."""
    try:
        seeds = [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--seeds: got {text!r}; expected whole numbers separated by commas") from None
    return list(dict.fromkeys(seeds))


def _facts(job: Job, missing: Sequence[str]) -> dict[str, Any]:
    """Return what is planned, and what is known of a run so far."""
    run, status, test = job.planned, job.status, job.test
    setting, cost = run.experiment.setting(), run.cost
    facts: dict[str, Any] = {
        "run": run.run,
        "experiment": run.experiment.name,
        "names": list(run.names),
        "scale": setting.scale,
        "data": setting.data,
        "seed": run.config.seed,
        "varies": run.varies,
        "dataset": run.dataset,
        "dataset_ready": not set(run.datasets) & set(missing),
        "state": "trained" if job.state == "waiting" and job.is_trained else job.state,
        "reason": job.reason,
        "step": 0 if status is None else status.step,
        "total_steps": run.config.total_steps,
        "global_batch_size": run.config.data.global_batch_size,
        "train_seconds": None if status is None else status.seconds,
        "training_flops": None if cost is None else cost.training_flops,
    }
    if test is not None and test["count"]:
        facts |= {name: test[name] for name in ("evaluation", "count", "exact_count")}
        facts["exact_accuracy"] = test["exact_count"] / test["count"]
    return facts


def _print_plan(facts: Sequence[dict[str, Any]], missing: Sequence[str], *, wide: bool) -> None:
    from trm_data.show.render import print_table

    columns = ["run", "asked as", "varies", "state", "steps x slots", "FLOP", "dataset"]
    rows = [
        (
            fact["run"],
            ", ".join(fact["names"]),
            fact["varies"],
            fact["state"],
            f"{fact['total_steps']:,} x {fact['global_batch_size']:,}",
            f"{fact['training_flops']:.1e}" if fact["training_flops"] else "-",
            fact["dataset"] + ("" if fact["dataset_ready"] else " (to build)"),
        )
        for fact in facts
    ]
    print_table(columns, rows, wide=wide, hint=WIDE_SHOWS)
    left = [fact for fact in facts if fact["state"] == "waiting"]
    asked = sum(len(fact["names"]) for fact in facts)
    print(
        f"{counted(len(facts), 'run')} for {counted(asked, 'experiment')} and seeds, {len(left)} to train; "
        f"{counted(len(missing), 'dataset')} to build"
    )
    known = [fact["training_flops"] for fact in left if fact["training_flops"]]
    without = (
        f", without {len(left) - len(known)} runs of which it is not known" if len(known) < len(left) else ""
    )
    print(
        f"training: {sum(known):.2e} FLOP{without}; trm-train run NAME --dry-run --target MACHINE estimates hours"
    )


def _print_summary(rows: Sequence[dict[str, Any]], *, wide: bool) -> None:
    from trm_data.show.render import print_table

    names = ("run", "varies", "state", "exact", "of", "steps", "train")
    table = [
        (
            row["run"],
            row["varies"],
            row["state"],
            percent(row.get("exact_accuracy")),
            row.get("count", 0),
            row["step"],
            duration(row["train_seconds"]),
        )
        for row in rows
    ]
    print_table(names, table, wide=wide, hint=WIDE_SHOWS)
    counts = Counter(row["state"] for row in rows)
    print(", ".join(f"{count} {state}" for state, count in counts.items()))
    for row in rows:
        if row["reason"]:
            print(f"{row['run']}: {row['reason']}")
