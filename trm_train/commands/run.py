"""`trm-train run`."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from trm_data.command import Root, emit, ending_at_once, keep_ctrl_c
from trm_data.errors import Exit
from trm_data.storage.root import Layout, resolve_root
from trm_train.commands.common import (
    DataOption,
    ProcessOptions,
    ScaleOption,
    refuse_dataset_as_experiment,
)
from trm_train.config.overrides import choose_forms, parse_options, take_option, without_effect
from trm_train.config.run import (
    RunConfig,
    check_config,
    check_extension,
    planned_steps,
)
from trm_train.errors import ConfigError
from trm_train.experiments.dataset import build_missing
from trm_train.experiments.registry import Experiment, find_run_of
from trm_train.experiments.setting import parse_setting
from trm_train.targets.catalog import USABLE_ON_GPUS, compiles_here, find_target, run_with_compiler

if TYPE_CHECKING:
    from trm_train.hosts import Hosts
    from trm_train.training.initial import Initial
    from trm_train.training.start import TrainResult

RUN_HELP = """Train an experiment, from its newest checkpoint if it has one.

Every field of the configuration can be overridden; except for execution.*, this makes another run. The same command
resumes a killed or stopped run. --optim.name and --model.architecture choose a variant; --help then shows its options.

For example:

  trm-train run quickstart
  trm-train run quickstart --seed 1 --optim.lr 3e-4
  trm-train run quickstart --optim.name adamw --optim.lr-schedule linear
  trm-train run quickstart --model.halt-exploration-prob "linear(0.3, 0.05)"
  trm-train run quickstart --build
  trm-train run trm_sudoku_mlp --dry-run
  trm-train run exp01c --dry-run --target v4-64
  trm-train run quickstart --resume never --tracking none
  trm-train run quickstart --model.architecture hrm
  trm-train run my_experiment --experiments my_experiments.py
  trm-train run quickstart --init-from weights.safetensors --total-steps 500
  trm-train run quickstart --coordinator 10.0.0.1:8476 --num-processes 2 --process-id 0
"""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of one start of a run, and the experiment's configuration with overrides."""

    config: Annotated[RunConfig, arg(name="")]
    scale: ScaleOption = None
    data: DataOption = None
    root: Root = None
    dry_run: bool = False
    """Print configuration, parameters, steps, batch and memory; take no step, need no dataset."""
    target: Annotated[str | None, arg(metavar="MACHINE", help_behavior_hint="")] = None
    """With --dry-run: compile for a machine that is not here (v4-64, h100x8, ...) with its compiler; print memory,
    collectives and, for TPUs, estimated time."""
    build: bool = False
    """Build the dataset first if it is missing: trm-data build NAME."""
    extend: Annotated[int | None, arg(metavar="STEPS", help_behavior_hint="")] = None
    """Train to this number of steps, beyond total_steps, under the same name; not with a schedule over training."""
    label: Annotated[str, arg(metavar="TEXT", help_behavior_hint="")] = ""
    """Your own name for the run, shown by status, SQL and the dashboard; not part of its identity."""
    init_from: Annotated[str | None, arg(metavar="RUN[@STEP]|DIR|FILE", help_behavior_hint="")] = None
    """Start a new run from the weights of another run, an exported one, or a file (import-weights --help)."""
    resume: Literal["auto", "never"] = "auto"
    """never: discard the run's checkpoints and metrics and start over."""
    processes: Annotated[ProcessOptions, arg(name="")] = field(default_factory=ProcessOptions)
    tracking: Literal["wandb", "none"] = "wandb"
    """Log metrics to wandb (offline without a login)."""
    json: bool = False
    """Print the result as JSON for machines, no progress."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Train an experiment: `trm-train run quickstart`; `trm-train run quickstart --help` lists its options."""

    experiment: Annotated[Positional[str], arg(metavar="EXPERIMENT [OVERRIDES]")]


def read_options(program: str, name: str, overrides: list[str]) -> tuple[Experiment, RunOptions]:
    """Return an experiment at its setting, and the options of its run, from the arguments after its name."""
    root, _ = take_option("--root", overrides)
    refuse_dataset_as_experiment(program, [name], resolve_root(root))
    scale, overrides = take_option("--scale", overrides)
    data, overrides = take_option("--data", overrides)
    setting = parse_setting(scale, data)
    item = find_run_of(name, setting)
    config, others = choose_forms(item.make(), overrides)
    return item, parse_options(RunOptions(config=config), f"{program} {name}", RUN_HELP, others)


def run_experiment(name: str, overrides: list[str]) -> int:
    """Train an experiment with overrides; return the exit code."""
    item, options = read_options("trm-train run", name, overrides)
    layout = resolve_root(options.root)
    keep_ctrl_c()
    _check(options)
    for line in without_effect(options.config, item.make()):
        print(f"trm-train: warning: {line}", file=sys.stderr)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", str(USABLE_ON_GPUS))
    if options.dry_run:
        return _dry_run(item, options, layout, ["run", name, *overrides])
    one_builds = "--build: build the dataset once (trm-data build NAME), then start the processes"
    hosts = options.processes.join("trm-train", one_builds if options.build else None)
    if options.build:
        for dataset in options.config.data.names:
            build_missing(dataset, layout, options.root, quiet=options.json)
    with ending_at_once(), hosts.ending_alone():
        return _train(item, options, layout, hosts)


def _train(
    item: Experiment,
    options: RunOptions,
    layout: Layout,
    hosts: Hosts,
) -> int:
    """Train and print the result; return the exit code."""
    from trm_train.console import RunConsole
    from trm_train.training.loop import train
    from trm_train.training.prepare import check_dataset_is_built

    check_dataset_is_built(options.config, layout, "the same command with --build")
    options, initial = _with_initial(options, layout, hosts)
    with RunConsole(options.config, quiet=options.json or not hosts.is_coordinator) as console:
        result = train(
            item,
            options.config,
            layout,
            console,
            resume=options.resume == "auto",
            tracking=options.tracking,
            extend=options.extend,
            label=options.label,
            hosts=hosts,
            initial=initial,
        )
    if hosts.is_coordinator:
        emit(_facts(result), _said(result), as_json=options.json)
    hosts.barrier("the end")
    return result.exit_code


def _with_initial(
    options: RunOptions, layout: Layout, hosts: Hosts | None = None
) -> tuple[RunOptions, Initial | None]:
    """Return the options with the digest of the initial weights, and the weights; None if they are drawn."""
    if options.init_from is None:
        return options, None
    from trm_train.training.initial import start_from

    config, initial = start_from(options.init_from, options.config, layout, hosts)
    return replace(options, config=config), initial


def _check(options: RunOptions) -> None:
    """Check the options."""
    from trm_train.runs.record import check_label

    check_config(options.config)
    if options.extend is not None:
        check_extension(options.config, options.extend)
    if options.target is not None and not options.dry_run:
        raise ConfigError("--target: only with --dry-run. A run uses the devices of this machine.")
    check_label(options.label)


def _facts(result: TrainResult) -> dict[str, Any]:
    return {
        "run": result.record.run,
        "folder": result.folder.place,
        "step": result.step,
        "finished": result.finished,
        "started_at": result.started_at,
        "seconds": result.seconds,
    }


def _said(result: TrainResult) -> str:
    run = result.record.run
    if not result.finished and not result.step:
        return f"{run}: stopped before its first step; the same command begins"
    if not result.finished:
        return f"{run}: stopped at step {result.step:,} with a checkpoint; the same command resumes"
    if result.started_at == result.step:
        return f"{run}: already finished ({result.step:,} steps); --resume never starts over"
    starts = " over all starts" if result.started_at else ""
    return (
        f"{run}: finished, {result.step:,} steps in {result.seconds:.1f} s{starts}\n"
        f"  evaluate it: trm-eval run {run}"
    )


def _dry_run(item: Experiment, options: RunOptions, layout: Layout, command: list[str]) -> int:
    target = None if options.target is None else find_target(options.target)
    if target is not None and not compiles_here(target):
        return run_with_compiler(target, command)
    from trm_train.training.plan import plan_run

    options, _ = _with_initial(options, layout)
    steps = planned_steps(options.config, options.extend)
    plan = plan_run(item, options.config, layout, steps, target)
    emit({**asdict(plan), "fits": plan.fits}, plan.text(), as_json=options.json)
    return Exit.FOUND if plan.fits is False else Exit.DONE
