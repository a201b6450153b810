"""`trm-train describe`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any

from tyro.conf import Positional, arg

from trm_data.command import Json, emit
from trm_train.commands.common import DataOption, ScaleOption
from trm_train.config.run import ExecutionConfig, RunConfig, config_to_json, effective_identity
from trm_train.experiments.registry import Experiment, find_experiment
from trm_train.experiments.setting import Setting, parse_setting


@dataclass(frozen=True, kw_only=True)
class Describe:
    """Describe an experiment: question, criteria, cost, commands, configuration.

    For example:

      trm-train describe exp02a_01
      trm-train describe exp02a_01 --scale tiny
    """

    experiment: Annotated[Positional[str], arg(metavar="EXPERIMENT")]
    """Name of an experiment (`trm-train list`)."""
    scale: ScaleOption = None
    data: DataOption = None
    json: Json = False

    def run(self) -> int:
        """Print the guide."""
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
        yield f"           an example and step, {cost['evaluation_flops'] / 1e9:.3g} GFLOP an example evaluated"
    yield "\nCommands:"
    for command in commands.values():
        yield f"  {command}"
    yield "\ndiffers from the defaults in:"
    for key, value in effective_identity(config).items():
        yield f"  {key} = {value}"
    for key, value in _execution(config).items():
        yield f"  {key} = {value}"


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
    """Return counted operations; empty if the dataset or the operations are unknown."""
    from trm_train.cost import cost_of
    from trm_train.experiments.dataset import plan_datasets

    planned = plan_datasets(item.datasets())
    if planned is None:
        return {}
    cost = cost_of(item.make(), planned.input_spec)
    return {} if cost is None else asdict(cost)
