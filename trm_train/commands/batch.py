"""`trm-train batch`: many runs with one command."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import override
from tyro.conf import Positional, arg

from trm_data.command import WIDE_SHOWS, Exit, Json, Root, Wide, emit
from trm_data.errors import not_written
from trm_data.storage.lease import locked
from trm_data.storage.local import LocalStore
from trm_data.storage.root import Layout, resolve_root
from trm_data.storage.store import Folder
from trm_train.commands.common import (
    DataOption,
    ScaleOption,
    SourceOption,
    counted,
    duration,
    percent,
    refuse_dataset_as_experiment,
    refuse_other_dataset_options,
    say_hours,
)
from trm_train.config.overrides import take_option
from trm_train.config.run import RunConfig
from trm_train.errors import ConfigError, TrainError
from trm_train.experiments.dataset import build_missing
from trm_train.experiments.registry import select_experiments
from trm_train.experiments.setting import parse_setting
from trm_train.experiments.sources import parse_source_of

if TYPE_CHECKING:
    from trm_train.batch.flow import BatchOptions, Job
    from trm_train.batch.plan import PlannedRun


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Train and evaluate many experiments.

    Each run is a process with its own log; `trm-eval run` evaluates its last checkpoint. On Ctrl-C the runs save a
    checkpoint; the same command resumes. Options of the configuration (--optim.lr 1e-3) apply to every run. A summary
    of all runs is written beside the logs, as JSON and Parquet.

    For example:

      trm-train batch exp04a --scale tiny --dry-run
      trm-train batch 'exp*' 'contrib0[12]*' --scale tiny --data generated --continue-on-failure
      trm-train batch exp07 exp09 --scale tiny --seeds 0,1,2 --jobs 2
    """

    patterns: Annotated[
        Positional[tuple[str, ...]], arg(metavar="PATTERN [PATTERN ...]", help_behavior_hint="")
    ]
    """Experiments: names, groups, beginnings of names, or globs like 'exp0[1-3]*'."""
    scale: ScaleOption = None
    data: DataOption = None
    seeds: Annotated[str, arg(metavar="SEED,...")] = "0"
    """Seeds of every experiment."""
    jobs: int = 1
    """Parallel runs, each on its own accelerators, on its part of a GPU's memory or, without any, on its own cores."""
    continue_on_failure: bool = False
    """Start further runs after a failure; the exit code is still 1."""
    dry_run: bool = False
    """Print the plan: runs, steps, data, cost."""
    source: SourceOption = None
    no_build: bool = False
    """Build no dataset; if one is missing, print the commands that build it and fail."""
    limit: int = 0
    """Maximum rows of every evaluation (0: all)."""
    log_dir: Annotated[str | None, arg(metavar="DIR", help_behavior_hint="")] = None
    """Folder of logs and summary (default: batches/ under the root if that is local, else here)."""
    tracking: Literal["wandb", "none"] = "none"
    """Log metrics to wandb."""
    wide: Wide = False
    root: Root = None
    json: Json = False

    def run(self, overrides: Sequence[str]) -> int:
        """Plan, build datasets, run, and summarize; return the exit code.

        Args:
            overrides: Options of the configuration, for every run.
        """
        from trm_train.batch.devices import shares
        from trm_train.batch.flow import BatchOptions, make_jobs, receive_signals
        from trm_train.batch.plan import missing_datasets, plan_batch

        self._check()
        layout = resolve_root(self.root)
        refuse_dataset_as_experiment("trm-train batch", self.patterns, layout)
        items = select_experiments(self.patterns, parse_setting(self.scale, self.data))
        sources = parse_source_of(self.source, [item.make() for item in items])
        runs = plan_batch(items, parse_seeds(self.seeds), layout, change_of(overrides), sources)
        for run in runs:
            if run.note is not None:
                print(f"trm-train: note: {run.experiment.name}: {run.note}", file=sys.stderr)
        each = shares(self.jobs)
        jobs = make_jobs(runs, layout, self.limit)
        missing = missing_datasets([job.planned for job in jobs if job.state != "done"], layout)
        if self.dry_run:
            _print_plan(jobs, missing, as_json=self.json, wide=self.wide)
            return Exit.DONE
        if missing and self.no_build:
            commands = "\n".join(f"  trm-data build {name}" for name in missing)
            raise ConfigError(f"datasets are missing, and --no-build is set. Build them:\n{commands}")
        logs = self._logs(runs, layout)
        how = BatchOptions(
            layout=layout,
            overrides=[*overrides, *(["--source", self.source] if self.source else [])],
            shares=each,
            logs=logs,
            tracking=self.tracking,
            limit=self.limit,
            go_on=self.continue_on_failure,
        )
        here = Folder(LocalStore(logs.parent), logs.name)
        with locked(
            here, f"{logs}: another batch writes its logs there; wait for it, or choose another --log-dir"
        ):
            for name in missing:
                build_missing(name, layout, self.root, sources=sources, quiet=self.json)
            with (
                receive_signals() as asked
            ):  # includes the summary, so that it is printed even after a second signal
                self._train(jobs, how, asked)
        if asked:
            return 128 + asked[0]
        return Exit.DONE if all(job.state == "done" for job in jobs) else Exit.FOUND

    def _check(self) -> None:
        if not self.patterns:
            raise ConfigError("no experiments named (expected trm-train batch PATTERN ...; '*' is all)")
        if self.jobs < 1:
            raise ConfigError(f"--jobs {self.jobs}: expected at least 1")
        if self.limit < 0:
            raise ConfigError(f"--limit {self.limit}: at least 0, which is all")

    def _train(self, jobs: list[Job], how: BatchOptions, asked: Sequence[int]) -> None:
        """Train and evaluate in parallel; then write and print the summary, also if the batch was interrupted."""
        from trm_train.batch.flow import run_jobs
        from trm_train.batch.summary import summary_row, write_summary

        unwritten: OSError | None = None
        try:
            with _screen(quiet=self.json) as screen:
                run_jobs(jobs, how, screen, asked)
        finally:
            rows = [summary_row(job) for job in jobs]
            try:
                write_summary(rows, how.logs)
            except OSError as error:
                unwritten = error
        emit(rows, partial(_print_summary, jobs, rows, wide=self.wide), as_json=self.json)
        sys.stdout.flush()
        if unwritten is not None:
            raise TrainError(
                not_written(f"{how.logs}: the summary", unwritten, "give the same command again")
            )
        if not self.json:
            print(f"summary: {how.logs / 'summary.json'}", flush=True)

    def _logs(self, runs: Sequence[PlannedRun], layout: Layout) -> Path:
        """Return the folder of logs and summary, which is the same for the same runs."""
        if self.log_dir is not None:
            folder = Path(self.log_dir).expanduser()
        else:
            names = "\n".join(run.run for run in runs)
            folder = Path(layout.machine) / "batches" / hashlib.sha256(names.encode()).hexdigest()[:8]
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def refuse_other_dataset_options_of_batch(command: str, arguments: Sequence[str]) -> None:
    """Call `refuse_other_dataset_options` for the arguments of a batch."""
    _, named = take_option("--dataset", list(arguments))
    names = takewhile(lambda word: not word.startswith("-"), named)
    refuse_other_dataset_options(" ".join([command, *names]), arguments)


def parse_seeds(text: str) -> list[int]:
    """Parse seeds separated by commas; remove duplicates."""
    try:
        seeds = [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--seeds: got {text!r}; expected whole numbers separated by commas") from None
    return list(dict.fromkeys(seeds))


def change_of(overrides: Sequence[str]) -> Callable[[RunConfig], RunConfig]:
    """Return a function that applies overrides to a configuration."""
    from trm_train.commands.run import parse_config

    return lambda config: parse_config(config, list(overrides)) if overrides else config


def _print_plan(jobs: Sequence[Job], missing: Sequence[str], *, as_json: bool, wide: bool) -> None:
    from trm_train.batch.flow import is_trained
    from trm_train.cost import MACHINES

    facts: list[dict[str, Any]] = []
    for job in jobs:
        run = job.planned
        setting = run.experiment.setting()
        facts.append(
            {
                "run": run.run,
                "names": list(run.names),
                "scale": setting.scale,
                "data": setting.data,
                "varies": run.experiment.says(run.config),
                "steps": run.config.total_steps,
                "global_batch_size": run.config.data.global_batch_size,
                "dataset": run.dataset,
                "dataset_ready": not set(run.datasets) & set(missing),
                "state": "trained" if job.state == "waiting" and is_trained(job) else job.state,
                "training_flops": None if run.cost is None else run.cost.training_flops,
                "testing_flops": run.testing_flops,
                "hours": {} if run.cost is None else {each.name: run.cost.hours(each) for each in MACHINES},
                "testing_hours": {}
                if run.testing_flops is None
                else {each.name: each.hours(run.testing_flops) for each in MACHINES},
            }
        )
    emit(facts, partial(_print_facts, facts, jobs, missing, wide=wide), as_json=as_json)


def _print_facts(
    facts: Sequence[dict[str, Any]], jobs: Sequence[Job], missing: Sequence[str], *, wide: bool
) -> None:
    from trm_data.show.render import print_table
    from trm_train.cost import MACHINES

    rows = [
        (
            fact["run"],
            fact["varies"],
            fact["state"],
            f"{fact['steps']:,} x {fact['global_batch_size']:,}",
            f"{fact['training_flops']:.1e}" if fact["training_flops"] else "-",
            fact["dataset"] + ("" if fact["dataset_ready"] else " (to build)"),
        )
        for fact in facts
    ]
    columns = ["run", "varies", "state", "steps x slots", "FLOP", "dataset"]
    if any(fact["names"] != [job.planned.experiment.name] for fact, job in zip(facts, jobs, strict=True)):
        columns.insert(1, "asked as")
        rows = [(row[0], ", ".join(fact["names"]), *row[1:]) for row, fact in zip(rows, facts, strict=True)]
    print_table(columns, rows, wide=wide, hint=WIDE_SHOWS)
    left = [fact for fact in facts if fact["state"] == "waiting"]
    asked = sum(len(fact["names"]) for fact in facts)
    print(
        f"{counted(len(facts), 'run')} for {counted(asked, 'experiment')} and seeds, {len(left)} to train; "
        f"{counted(len(missing), 'dataset')} to build"
    )
    for what, column in (("training", "hours"), ("validations and tests", "testing_hours")):
        hours = {each.name: sum(fact[column].get(each.name, 0.0) for fact in left) for each in MACHINES}
        unknown = sum(not fact[column] for fact in left)
        without = f"; without {unknown} runs of which it is not known" if unknown else ""
        print(f"{what}, computed: {say_hours(hours)}{without}")
    print("docs/experiments/README.md has the assumptions")


def _print_summary(jobs: Sequence[Job], rows: Sequence[dict[str, Any]], *, wide: bool) -> None:
    from trm_data.show.render import print_table

    print_table(
        ["run", "varies", "state", "exact", "95%", "of", "steps", "train"],
        [
            (
                row["run"],
                row["varies"],
                row["state"],
                percent(row["exact_accuracy"]),
                "-"
                if row["exact_low"] is None
                else f"{percent(row['exact_low'])} to {percent(row['exact_high'])}",
                row["count"] or 0,
                row["step"] or 0,
                duration(row["train_seconds"]),
            )
            for row in rows
        ],
        wide=wide,
        hint=WIDE_SHOWS,
    )
    counted = {
        state: sum(job.state == state for job in jobs)
        for state in ("done", "failed", "interrupted", "waiting")
    }
    print(", ".join(f"{count} {state}" for state, count in counted.items() if count))
    for job in jobs:
        if job.state == "failed":
            print(f"{job.planned.run}: {job.reason} (log: {job.log})")


class _Lines:
    """Progress as one line for each event, for output without a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def note(self, text: str) -> None:
        """Print a line."""
        if not self._quiet:
            print(text, file=sys.stderr, flush=True)

    def show(self, jobs: Sequence[Job]) -> None:
        """Do nothing: only events are printed."""


class _Table(_Lines):
    """Progress as a live table of active runs, below the lines of events."""

    SHOW_S = 2.0

    def __init__(self) -> None:
        super().__init__(quiet=False)
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False)
        self._shown = 0.0

    def __enter__(self) -> _Table:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    @override
    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)

    @override
    def show(self, jobs: Sequence[Job]) -> None:
        from rich.table import Column, Table

        if time.monotonic() - self._shown < self.SHOW_S:
            return
        self._shown = time.monotonic()
        done = sum(job.state == "done" for job in jobs)
        table = Table(
            Column("run", no_wrap=True),
            "state",
            "step",
            "left",
            "validation",
            title=f"{done} of {len(jobs)} done",
        )
        for job in jobs:
            if job.process is None:
                continue
            status = job.status
            step, left, best = "-", None, None
            if status is not None:
                step, best = f"{status.step:,} of {status.total_steps:,}", status.exact_accuracy
                if status.examples_per_s:
                    slots = job.planned.config.data.global_batch_size
                    left = (status.total_steps - status.step) * slots / status.examples_per_s
            table.add_row(job.planned.run, job.state, step, duration(left), percent(best))
        self._live.update(table, refresh=True)


def _screen(*, quiet: bool) -> _Lines:
    return (
        _Table()
        if not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        else _Lines(quiet=quiet)
    )
