"""Training from Python: `trm_train.train`, `trm_train.sweep` and `trm_train.list_experiments`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from trm_data.building.fields import build_dataset
from trm_data.errors import arguments_named, no_such
from trm_data.storage.root import Layout, Root, resolve_root
from trm_data.storage.store import Folder
from trm_train.config.run import ALTERNATIVES, RunConfig, check_config, config_from_json, config_to_json
from trm_train.config.values import add_lr_schedule as add_lr_schedule
from trm_train.console import RunConsole
from trm_train.errors import ConfigError
from trm_train.experiments.registry import find_run_of, select_experiments
from trm_train.experiments.setting import parse_setting
from trm_train.experiments.sweep import parse_grid, write_sweep
from trm_train.extensions import add_network as add_network
from trm_train.metrics import metrics_frame, read_metrics
from trm_train.runs.record import RunRecord, check_label
from trm_train.runs.status import written_steps

if TYPE_CHECKING:
    import polars as pl

    from trm_train.training.start import TrainResult

OnMetrics = Callable[[int, str, dict[str, float]], None]
"""Callback with the training step, the split (`train` or `validation`) and the rates."""


@dataclass(frozen=True)
class TrainedRun:
    """Result of `train`: a trained run.

    Attributes:
        name: Name of the run, accepted by every command.
        folder: Path of its folder, `<root>/runs/<group>/<experiment>/<run>`.
        step: Total number of training steps taken.
        finished: Whether it reached its last step.
        layout: Root of its datasets and results.
    """

    name: str
    folder: str
    step: int
    finished: bool
    layout: Layout
    _place: Folder
    _record: RunRecord

    def metrics(self, *, by_dataset: bool = False) -> pl.DataFrame:
        """Return a row per step and split, with the columns of the SQL table `train_metrics`.

        Args:
            by_dataset: Also return a row for each dataset of a mixture, named by the column `dataset`.

        Raises:
            CorruptFileError: A metrics file is missing or has changed since it was written.
        """
        rows = read_metrics(self._place, written_steps(self._place))
        of = {"experiment": self._record.experiment, "run": self._record.run}
        return metrics_frame(rows, **of, by_dataset=by_dataset)

    def __repr__(self) -> str:
        state = "finished" if self.finished else "stopped"
        return f"TrainedRun({self.name!r}, {state} at step {self.step:,})"


@arguments_named()
def train(
    experiment: str,
    *,
    dataset: str | None = None,
    data: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    optim: Mapping[str, Any] | None = None,
    loss: Mapping[str, Any] | None = None,
    execution: Mapping[str, Any] | None = None,
    total_steps: int | None = None,
    seed: int | None = None,
    scale: str | None = None,
    puzzles: str | None = None,
    build: bool = False,
    init_from: str | None = None,
    resume: bool = True,
    label: str = "",
    tracking: bool = False,
    on_metrics: OnMetrics | None = None,
    quiet: bool = False,
    root: Root | None = None,
) -> TrainedRun:
    """Train an experiment as `trm-train run` does, starting from its newest checkpoint if it has one.

    Ctrl-C (SIGINT) and SIGTERM stop after a step, with a checkpoint; the same call resumes.

    Args:
        experiment: Name of the experiment (`list_experiments`).
        dataset: Name of another dataset to learn from.
        data: Options of the part `data`, as `trm-train run EXPERIMENT --help` lists them, with `_` for `-`.
        model: Options of the part `model`, for example `{"hidden_size": 64}` or `{"architecture": "hrm"}`.
        optim: Options of the part `optim`; `lr_schedule` may be a function (`add_lr_schedule`).
        loss: Options of the part `loss`.
        execution: Options of the part `execution`, which do not affect the run's name.
        total_steps: Number of training steps.
        seed: Seed of every random draw.
        scale: full, laptop or tiny (default: the experiment's own).
        puzzles: published, generated-extreme or generated, as option `--data` (default: the experiment's own).
        build: Build the dataset if it is missing.
        init_from: Start from the weights of RUN, RUN@STEP or a file; their digest changes the name of the run.
        resume: False first discards the checkpoints and metrics of the run.
        label: Your own label for the run.
        tracking: Copy the metrics to wandb.
        on_metrics: Called for every logged window of training steps and every validation.
        quiet: Print nothing.
        root: Root folder, `gs://bucket/prefix`, a layout or a store (default: `$TRM_ROOT`, else `./trm`).

    Raises:
        ConfigError: The experiment or option does not exist, or the configuration cannot be run.
        DatasetNotFoundError: The dataset is not built.
        BusyError: Another process is training the run.
        NotFiniteError: The loss is NaN or infinite.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    layout = resolve_root(root)
    item = find_run_of(experiment, parse_setting(scale, puzzles))
    rows = data if dataset is None else {**(data or {}), "dataset": dataset}
    parts = {"data": rows, "model": model, "optim": optim, "loss": loss, "execution": execution}
    config = with_options(item.make(), parts)
    whole = {"total_steps": total_steps, "seed": seed}
    config = dataclasses.replace(
        config, **{name: value for name, value in whole.items() if value is not None}
    )
    check_config(config)
    if build:
        for name in config.data.names:
            build_dataset(name, root=layout, quiet=quiet)

    from trm_train.training.loop import train as train_run
    from trm_train.training.prepare import check_dataset_is_built

    check_dataset_is_built(config, layout, "pass build=True")
    initial = None
    if init_from is not None:
        from trm_train.training.initial import start_from

        config, initial = start_from(init_from, config, layout)
    with _Console(config, on_metrics, quiet=quiet) as console:
        result = train_run(
            item,
            config,
            layout,
            console,
            resume=resume,
            tracking="wandb" if tracking else "none",
            label=check_label(label),
            initial=initial,
        )
    return _trained(result, layout)


def _trained(result: TrainResult, layout: Layout) -> TrainedRun:
    name, place = result.record.run, result.folder
    return TrainedRun(name, place.place, result.step, result.finished, layout, place, result.record)


@arguments_named()
def sweep(
    experiment: str,
    over: Mapping[str, Sequence[Any]],
    *,
    seeds: Sequence[int] = (0,),
    name: str = "",
    data: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    optim: Mapping[str, Any] | None = None,
    loss: Mapping[str, Any] | None = None,
    execution: Mapping[str, Any] | None = None,
    total_steps: int | None = None,
    scale: str | None = None,
    puzzles: str | None = None,
    quiet: bool = False,
    root: Root | None = None,
) -> list[TrainedRun]:
    """Train an experiment at every combination of values of some options, as `trm-train batch --sweep` does.

    The runs have the names that the command gives them. Finished runs are not trained again, so the same call resumes.
    `trm_eval.evaluate` tests each run. The arguments that are not listed here are those of `train`, for every run.

    Args:
        experiment: Name of the experiment (`list_experiments`).
        over: Values of each option, such as `{"data.dataset": ["a", "b"], "model.hidden_size": [64, 96]}`.
        seeds: Seeds of each combination.
        name: Name of the sweep, for reports and queries (default: made of the experiment and the options).

    Raises:
        ConfigError: An option or value is not possible, or a sweep of this name has other values.
        DatasetNotFoundError: A dataset is not built.
    """
    from trm_train.batch import plan_sweep
    from trm_train.training.loop import train as train_run
    from trm_train.training.prepare import check_dataset_is_built

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    layout = resolve_root(root)
    parts = {"data": data, "model": model, "optim": optim, "loss": loss, "execution": execution}

    def change(config: RunConfig) -> RunConfig:
        config = with_options(config, parts)
        return config if total_steps is None else dataclasses.replace(config, total_steps=total_steps)

    item = find_run_of(experiment, parse_setting(scale, puzzles))
    lists = {key: [values] if isinstance(values, str) else values for key, values in over.items()}
    grid = parse_grid(f"{key}={','.join(map(str, values))}" for key, values in lists.items())
    planned, runs = plan_sweep(name, item, grid, seeds, layout, change)
    for run in runs[: len(planned.points)]:
        check_dataset_is_built(run.config, layout)
    write_sweep(planned, layout)
    found: list[TrainedRun] = []
    for run in runs:
        with RunConsole(run.config, quiet=quiet) as console:
            found.append(_trained(train_run(item, run.config, layout, console, tracking="none"), layout))
    return found


@arguments_named()
def list_experiments(patterns: Sequence[str] = (), *, scale: str | None = None) -> pl.DataFrame:
    """Return the registered experiments: a row each with name, group, question, what it varies, dataset and setting.

    Args:
        patterns: Names, groups, prefixes of names, or globs; empty for all.
        scale: Only experiments available at this scale: full, laptop or tiny.

    Raises:
        ConfigError: A pattern matches nothing.
    """
    import polars as pl

    items = select_experiments(patterns, parse_setting(scale, None))
    columns = {
        "name": [item.name for item in items],
        "group": [item.group for item in items],
        "question": [item.summary for item in items],
        "varies": [item.varies for item in items],
        "dataset": [item.dataset() for item in items],
        "setting": [str(item.setting()) for item in items],
    }
    return pl.DataFrame(columns)


def with_options(config: RunConfig, changes: Mapping[str, Mapping[str, Any] | None]) -> RunConfig:
    """Return a configuration with options of its parts replaced.

    Args:
        config: Configuration to change.
        changes: Options by part; a tag (`architecture`, `name`, `form`) switches a part to another form.

    Raises:
        ConfigError: A part has no such option, or a value has the wrong type.
    """
    forms = {alternatives.key: alternatives for alternatives in ALTERNATIVES}
    if callable(function := (changes.get("optim") or {}).get("lr_schedule")):
        named = add_lr_schedule(function).__name__
        changes = {**changes, "optim": {**(changes["optim"] or {}), "lr_schedule": named}}
    for key, options in changes.items():
        if not options:
            continue
        part = getattr(config, key)
        if key in forms and forms[key].tag in options:
            part = forms[key].choose(part, options[forms[key].tag])
            config = dataclasses.replace(config, **{key: part})
        types = {item.name: type(getattr(part, item.name)) for item in dataclasses.fields(part)}
        for name, value in options.items():
            if name not in types:
                raise ConfigError(
                    no_such(f"no option {key}.{name}", name, types, "trm-train run EXPERIMENT --help")
                )
            _check_type(f"{key}.{name}", value, types[name])
    stored = config_to_json(config)
    for key, options in changes.items():
        stored[key] |= options or {}
    changed = config_from_json(stored)
    for key, options in changes.items():
        for name, value in (options or {}).items():
            read = getattr(getattr(changed, key), name)
            if isinstance(read, str) and not isinstance(getattr(getattr(config, key), name), str):
                raise ConfigError(f"{key}.{name}: expected a number, got {value!r}")
    return changed


def _check_type(key: str, value: Any, expected: type[Any]) -> None:
    """Check that a value has the type of the one it replaces; a number may also be a schedule, given as text."""
    if expected is float and isinstance(value, str):
        return
    numbers = (int, float) if expected is float else (expected,)
    simple = expected in (bool, int, float, str)
    if simple and (not isinstance(value, numbers) or (isinstance(value, bool) and expected is not bool)):
        raise ConfigError(f"{key}: expected {expected.__name__}, got {value!r}")


class _Console(RunConsole):
    """Console of the command line that also calls `on_metrics`."""

    def __init__(self, config: RunConfig, on_metrics: OnMetrics | None, *, quiet: bool):
        super().__init__(config, quiet=quiet)
        self._on_metrics = on_metrics

    @override
    def window(self, step: int, rows_loaded: int, steps: int, metrics: dict[str, float]) -> list[str]:
        if self._on_metrics is not None:
            self._on_metrics(step, "train", dict(metrics))
        return super().window(step, rows_loaded, steps, metrics)

    @override
    def validated(self, step: int, metrics: dict[str, float]) -> list[str]:
        if self._on_metrics is not None:
            self._on_metrics(step, "validation", dict(metrics))
        return super().validated(step, metrics)
