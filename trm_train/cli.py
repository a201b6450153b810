"""`trm-train`: run, list and describe experiments.

Heavy imports happen inside the commands, so that `--help` and `list` stay fast.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import Positional, arg, subcommand

from trm_data.command import PARSING, Exit, Root, answer_version, errors_end
from trm_data.errors import DataError
from trm_data.storage.root import Layout, resolve_root
from trm_train.config.overrides import choose_forms, spelled_values
from trm_train.config.run import (
    RunConfig,
    check_config,
    check_extension,
    config_to_json,
    effective_identity,
    planned_steps,
)
from trm_train.errors import ConfigError, TrainError
from trm_train.experiments.dataset import build_missing
from trm_train.experiments.registry import Experiment, find_experiment, find_run_of, load_experiments

if TYPE_CHECKING:
    from trm_train.run.start import TrainResult

RUN_HELP = """Train an experiment, from its newest checkpoint if it has one.

Any field of the configuration can be overridden; the run is then another one, unless the field is one of
execution. A run that was killed or stopped goes on by the same command. --optim.name and --model.architecture choose
a form of that part, whose own options --help then shows.

For example:

  trm-train run quickstart
  trm-train run quickstart --seed 1 --optim.lr 3e-4
  trm-train run quickstart --optim.name adamw --optim.lr-schedule linear
  trm-train run quickstart --model.halt-exploration-prob "linear(0.3, 0.05)"
  trm-train run quickstart --build
  trm-train run trm_sudoku_mlp --dry-run
  trm-train run quickstart --resume never --tracking none
"""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How this start of a run goes, and the experiment's configuration with its overrides."""

    config: Annotated[RunConfig, arg(name="")]
    root: Root = None
    dry_run: bool = False
    """Say what would run (configuration, parameters, steps, batch, memory); take no step, need no dataset."""
    build: bool = False
    """Build the dataset first if it is not there: trm-data build NAME."""
    extend: Annotated[int | None, arg(metavar="STEPS", help_behavior_hint="")] = None
    """Go on to so many steps in all, beyond total_steps, under the same name; not with a schedule over training."""
    resume: Literal["auto", "never"] = "auto"
    """never throws away the run's checkpoints and metrics and starts anew."""
    archive: Annotated[str | None, arg(metavar="ROOT", help_behavior_hint="")] = None
    """Copy the run to this root, a folder or gs://bucket/prefix, when it has finished."""
    tracking: Literal["wandb", "none"] = "wandb"
    """Mirror metrics to wandb (offline when there is no login), or not."""
    json: bool = False
    """Print the result as JSON for machines, no progress."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Train an experiment: `trm-train run quickstart`; `trm-train run quickstart --help` lists its options."""

    experiment: Annotated[Positional[str], arg(metavar="EXPERIMENT [OVERRIDES]")]


@dataclass(frozen=True, kw_only=True)
class List:
    """List the experiments."""

    json: bool = False
    """Print JSON for machines."""

    def run(self) -> int:
        """Print a line each."""
        experiments = load_experiments()
        if self.json:
            facts = [
                {
                    "name": item.name,
                    "group": item.group,
                    "summary": item.summary,
                    "dataset": item.dataset,
                    "alias_of": item.alias_of,
                }
                for item in experiments.values()
            ]
            print(json.dumps(facts, indent=1))
            return 0
        width = max(map(len, experiments))
        for item in experiments.values():
            alias = f" (the run of {item.alias_of})" if item.alias_of else ""
            print(f"{item.name:<{width}}  {item.summary}{alias}")
        return 0


@dataclass(frozen=True, kw_only=True)
class Describe:
    """Say what an experiment asks, how to judge it, and its configuration."""

    experiment: Annotated[Positional[str], arg(metavar="EXPERIMENT")]
    json: bool = False
    """Print JSON for machines."""

    def run(self) -> int:
        """Print the guide."""
        item = find_experiment(self.experiment)
        config = item.make()
        if self.json:
            facts = {
                "name": item.name,
                "group": item.group,
                "alias_of": item.alias_of,
                "guide": None if item.guide is None else asdict(item.guide),
                "dataset": item.dataset,
                "build": item.build,
            }
            print(json.dumps({**facts, "config": config_to_json(config)}, indent=1))
            return 0
        alias = f", the run of {item.alias_of}" if item.alias_of else ""
        print(f"{item.name} ({item.group}{alias})\n")
        if item.guide is not None:
            print(f"{item.guide.text()}\n")
        print(f"Dataset:   {item.dataset} ({item.build})\n\ndiffers from the defaults in:")
        for key, value in effective_identity(config).items():
            print(f"  {key} = {value}")
        return 0


@dataclass(frozen=True, kw_only=True)
class Sync:
    """Copy runs from one root to another; what is there already is skipped, an interrupted copy goes on.

    Every file is checked where it arrives. A run that is further at the target is not overwritten.

    For example:

      trm-train sync ./trm gs://bucket/trm
      trm-train sync gs://bucket/trm ./trm quickstart
    """

    source: Annotated[Positional[str], arg(metavar="SRC")]
    """Root to copy from: a folder or gs://bucket/prefix."""
    target: Annotated[Positional[str], arg(metavar="DST")]
    """Root to copy to."""
    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="[RUN ...]")] = ()
    """Names of runs, or experiments that have one run; all if none is named."""
    json: bool = False
    """Print JSON for machines."""

    def run(self) -> int:
        """Copy them."""
        from trm_data.show.progress import terminal_progress
        from trm_train.run.sync import sync_runs

        with terminal_progress(quiet=self.json) as progress:
            done = sync_runs(resolve_root(self.source), resolve_root(self.target), list(self.runs), progress)
        if self.json:
            print(json.dumps([asdict(one) for one in done], indent=1))
            return Exit.DONE
        for one in done:
            print(
                f"{one.run}: {one.files_copied} files, {one.bytes_copied / 1e6:.1f} MB copied, {one.files_kept} were "
                f"there, {one.seconds:.1f} s"
            )
        if not done:
            print(f"no runs under {self.source}")
        return Exit.DONE


Command = (
    Annotated[Run, subcommand("run")]
    | Annotated[List, subcommand("list")]
    | Annotated[Describe, subcommand("describe")]
    | Annotated[Sync, subcommand("sync")]
)


def main(arguments: list[str] | None = None) -> None:
    """Run `trm-train`. Exit codes: `trm_data.command.Exit`."""
    given = sys.argv[1:] if arguments is None else arguments
    with errors_end("trm-train", TrainError, DataError):
        answer_version("trm-train", given)
        if len(given) > 1 and given[0] == "run" and given[1] not in ("-h", "--help"):
            if given[1].startswith("-"):
                raise ConfigError(
                    "name the experiment first: trm-train run EXPERIMENT [options] (trm-train list)"
                )
            sys.exit(_run(given[1], given[2:]))
        command = tyro.cli(
            Command, prog="trm-train", description="Train tiny recursive models.", args=given, config=PARSING
        )
        assert not isinstance(command, Run)
        sys.exit(command.run())


def _run(name: str, overrides: list[str]) -> int:
    """Train an experiment with overrides."""
    item = find_run_of(name)
    config, others = choose_forms(item.make(), overrides)
    with spelled_values():
        options = tyro.cli(
            RunOptions,
            prog=f"trm-train run {name}",
            description=RUN_HELP,
            args=others,
            default=RunOptions(config=config),
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    check_config(options.config)
    if options.extend is not None:
        check_extension(options.config, options.extend)
    layout = resolve_root(options.root)
    archive = None if options.archive is None else resolve_root(options.archive)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from trm_train.run.loop import train
    from trm_train.run.prepare import check_dataset_is_built

    if options.dry_run:
        return _dry_run(item, options, layout)
    if options.build:
        build_missing(options.config.data.only_dataset(), layout, options.root, quiet=options.json)
    check_dataset_is_built(options.config, layout)
    from trm_train.console import RunConsole

    with RunConsole(options.config, quiet=options.json) as console:
        result = train(
            item,
            options.config,
            layout,
            console,
            resume=options.resume == "auto",
            tracking=options.tracking,
            extend=options.extend,
        )
    _print_result(result, as_json=options.json)
    if archive is not None and result.finished:
        _archive(result, archive, quiet=options.json)
    return Exit.DONE if result.finished else 128 + result.signal


def _archive(result: TrainResult, target: Layout, *, quiet: bool) -> None:
    """Copy a finished run to another root."""
    from trm_data.show.progress import terminal_progress
    from trm_train.run.sync import sync_run

    with terminal_progress(quiet=quiet) as progress:
        synced = sync_run(result.folder, target, progress)
    if not quiet:
        print(
            f"  archived: {synced.files_copied} files, {synced.bytes_copied / 1e6:.1f} MB, to {target.place}"
        )


def _print_result(result: TrainResult, *, as_json: bool) -> None:
    if as_json:
        facts: dict[str, Any] = {
            "run": result.record.run,
            "folder": result.folder.place,
            "step": result.step,
        }
        facts |= {"finished": result.finished, "started_at": result.started_at, "seconds": result.seconds}
        print(json.dumps(facts, indent=1))
    elif not result.finished and not result.step:
        print(f"{result.record.run}: stopped before its first step; the same command begins")
    elif not result.finished:
        print(
            f"{result.record.run}: stopped at step {result.step:,} with a checkpoint; the same command goes on"
        )
    elif result.started_at == result.step:
        print(f"{result.record.run}: already finished ({result.step:,} steps); --resume never starts anew")
    else:
        starts = " over all starts" if result.started_at else ""
        print(f"{result.record.run}: finished, {result.step:,} steps in {result.seconds:.1f} s{starts}")
        print(f"  evaluate it: trm-eval run {result.record.run}")


def _dry_run(item: Experiment, options: RunOptions, layout: Layout) -> int:
    from trm_train.run.plan import plan_run

    plan = plan_run(item, options.config, layout, planned_steps(options.config, options.extend))
    if options.json:
        print(json.dumps(asdict(plan), indent=1))
        return 0
    print(plan.text())
    return 0
