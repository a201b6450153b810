"""`trm-train describe`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from trm_data.command import Json, Root, emit
from trm_data.storage.root import Layout, resolve_root
from trm_train.commands.common import DataOption, ScaleOption, percent, say_hours
from trm_train.config.run import ExecutionConfig, RunConfig, config_to_json, effective_identity
from trm_train.errors import ConfigError
from trm_train.experiments.registry import (
    Experiment,
    find_experiment,
    load_experiments,
)
from trm_train.experiments.setting import Setting, parse_setting

if TYPE_CHECKING:
    from trm_train.runs.record import RunRecord
    from trm_train.runs.status import RunOverview


@dataclass(frozen=True, kw_only=True)
class Describe:
    """Describe an experiment (question, criteria, cost, commands, configuration) or a run.

    For example:

      trm-train describe exp02a_01
      trm-train describe quickstart-5c9b5d34-s0
      trm-train describe exp02a_01 --scale tiny
    """

    experiment: Annotated[Positional[str], arg(metavar="EXPERIMENT")]
    """Name of an experiment (`trm-train list`), or name or folder of a run (`trm-train status`)."""
    scale: ScaleOption = None
    data: DataOption = None
    root: Root = None
    """Root of the run."""
    json: Json = False

    def run(self) -> int:
        """Print the guide, or the description of a run."""
        if (run := _run_called(self.experiment, resolve_root(self.root))) is not None:
            return _describe_run(run, as_json=self.json)
        wanted = parse_setting(self.scale, self.data)
        everywhere = find_experiment(self.experiment)
        item = everywhere.at(wanted)
        setting, config = item.setting(), item.make()
        commands = commands_of(item, wanted)
        cost = _cost(item)
        facts = {
            "name": item.name,
            "group": item.group,
            "alias_of": item.alias_of(),
            "scale": setting.scale,
            "data": setting.data,
            "guide": None if item.guide is None else item.guide.to_json(),
            "dataset": item.dataset(),
            "build": commands["build"],
            "commands": commands,
            "cost": cost,
            "config": config_to_json(config),
        }
        full = any(each.scale == "full" for each in everywhere.settings)
        emit(facts, _lines(item, config, facts, full=full), as_json=self.json)
        return 0


def _lines(item: Experiment, config: RunConfig, facts: dict[str, Any], *, full: bool) -> Iterator[str]:
    """Return the description of an experiment; `full`: whether it also runs at the scale full."""
    setting, cost, commands = item.setting(), facts["cost"], facts["commands"]
    alias = f", the run of {item.alias_of()}" if item.alias_of() else ""
    yield f"{item.name} ({item.group}{alias}; {setting})\n"
    if item.guide is not None:
        yield item.guide.text()
        if setting.scale != "full" and full:
            yield f"Scale:     {setting.scale}; numbers above are of the full scale, those of this run are below"
        yield f"Here:      {item.varies}\n" if item.varies else ""
    yield f"Dataset:   {item.dataset()}"
    if cost:
        yield f"Computed:  {cost['training_flops']:.2g} FLOP of training, {cost['example_flops'] / 1e9:.3g} GFLOP"
        yield f"           an example and step, {cost['evaluation_flops'] / 1e9:.3g} GFLOP an example evaluated;"
        yield f"           {say_hours(cost['hours'])}; see docs/experiments/README.md for what is assumed"
    yield "\nCommands:"
    for command in commands.values():
        yield f"  {command}"
    yield "\ndiffers from the defaults in:"
    for key, value in effective_identity(config).items():
        yield f"  {key} = {value}"
    for key, value in _execution(config).items():
        yield f"  {key} = {value}"


def _run_called(name: str, layout: Layout) -> RunOverview | None:
    """Return the run with this name; None if the name is unknown or is an experiment or group."""
    from trm_train.runs.record import find_run
    from trm_train.runs.status import overview_of

    experiments = load_experiments()
    if name in experiments or any(name == item.group for item in experiments.values()):
        return None
    try:
        folder = find_run(layout, name)
    except ConfigError:
        return None
    return overview_of(folder)


def _describe_run(run: RunOverview, *, as_json: bool) -> int:
    """Print the description of a run."""
    if run.record is None:
        raise ConfigError(run.problem)
    said = [f"{run.run}\n"]
    said += [f"{name + ':':<12}{text}" for name, text in _run_lines(run, run.record).items() if text]
    said += ["\nCommands:", *(f"  {command}" for command in _commands_of_run(run).values())]
    emit(_run_facts(run, run.record), said, as_json=as_json)
    return 0


def _commands_of_run(run: RunOverview) -> dict[str, str]:
    mixture = () if run.record is None else run.record.mixture
    chosen = f" --dataset {mixture[0].dataset}" if mixture else ""
    return {"evaluate": f"trm-eval run {run.run}", "show": f"trm-eval show {run.run}{chosen}"}


def _run_facts(run: RunOverview, record: RunRecord) -> dict[str, Any]:
    status = run.status
    return {
        "run": record.run,
        "label": record.label,
        "experiment": record.experiment,
        "group": record.group,
        "scale": record.scale,
        "data": record.data,
        "seed": record.config.seed,
        "differs": run.differs,
        "dataset": run.dataset,
        "content_digest": record.content_digest,
        "state": run.condition,
        "step": None if status is None else status.step,
        "total_steps": record.total_steps,
        "exact_accuracy": None if status is None else status.exact_accuracy,
        "parameters": record.parameters,
        "training_flops": record.total_flops,
        "evaluation_flops": record.evaluation_flops,
        "created_at": record.created_at,
        "versions": record.versions,
        "folder": run.folder.place,
        "commands": _commands_of_run(run),
        "config": config_to_json(record.config),
    }


def _run_lines(run: RunOverview, record: RunRecord) -> dict[str, str]:
    status = run.status
    where = " ".join(filter(None, (record.group, record.scale, record.data)))
    step = "" if status is None else f"{status.step:,} of "
    best = "" if status is None else f", best validation {percent(status.exact_accuracy)}"
    differs = "the experiment is not known here" if run.differs is None else run.differs or "nothing"
    size = "unknown" if record.parameters is None else f"{record.parameters:,}"
    flops = "unknown" if record.training_flops is None else f"{record.training_flops:.2g}"
    return {
        "Label": record.label,
        "Experiment": f"{record.experiment} ({where})",
        "Differs": differs,
        "Dataset": _say_datasets(record),
        "Seed": str(record.config.seed),
        "State": f"{run.condition}, {step}{record.total_steps:,} steps{best}",
        "Size": f"{size} parameters, {flops} FLOP of training",
        "Began": f"{record.created_at}, {', '.join(f'{name} {of}' for name, of in record.versions.items())}",
        "Folder": run.folder.place,
    }


def _say_datasets(record: RunRecord) -> str:
    """Format the datasets of a run, each with its digest."""
    digests = [(each.dataset, each.content_digest) for each in record.mixture]
    digests = digests or [(record.config.data.label, record.content_digest)]
    return ", ".join(f"{name} (content digest {digest[:12]})" for name, digest in digests)


def _execution(config: RunConfig) -> dict[str, object]:
    """Return the execution options that differ from the defaults; they are not part of the identity."""
    usual = ExecutionConfig()
    return {
        f"execution.{each.name}": value
        for each in fields(usual)
        if (value := getattr(config.execution, each.name)) != getattr(usual, each.name)
    }


def commands_of(item: Experiment, setting: Setting | None) -> dict[str, str]:
    """Return the commands for an experiment, with the setting if one was requested."""
    at = "" if setting is None else f" {setting}"
    return {
        "build": " && ".join(f"trm-data build {name}" for name in item.datasets()),
        "run": f"trm-train run {item.name}{at}",
        "evaluate": f"trm-eval run {item.name}{at}",
        "group": f"trm-train batch {item.group}{at}",
    }


def _cost(item: Experiment) -> dict[str, Any]:
    """Return counted operations and hours by machine; empty if the dataset or the operations are unknown."""
    from trm_train.cost import MACHINES, cost_of
    from trm_train.experiments.dataset import plan_datasets

    planned = plan_datasets(item.datasets())
    if planned is None:
        return {}
    cost = cost_of(item.make(), planned.input_spec)
    if cost is None:
        return {}
    return {**asdict(cost), "hours": {machine.name: cost.hours(machine) for machine in MACHINES}}
