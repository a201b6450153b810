"""`trm-train list` and `describe`: what there is, and what to know of it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from trm_data.command import Json, Root
from trm_data.storage.root import Layout, resolve_root
from trm_train.commands.common import DataOption, Patterns, ScaleOption, counted, percent, say_hours
from trm_train.config.run import ExecutionConfig, RunConfig, config_to_json, effective_identity, identity_hash
from trm_train.experiments.registry import Experiment, find_experiment, groups_of, select_experiments
from trm_train.experiments.setting import Setting, parse_setting

if TYPE_CHECKING:
    from trm_train.run.overview import RunOverview


@dataclass(frozen=True, kw_only=True)
class List:
    """List experiments: what each varies, whether its data is there, its runs and their best validation.

    For example:

      trm-train list
      trm-train list exp04 'contrib*' --scale tiny
    """

    patterns: Patterns = ()
    scale: ScaleOption = None
    data: DataOption = None
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Print a line each, by group."""
        items = select_experiments(self.patterns, parse_setting(self.scale, self.data))
        facts = _facts(items, resolve_root(self.root))
        if self.json:
            print(json.dumps(list(facts.values()), indent=1))
            return 0
        width = max(map(len, facts))
        for group, members in groups_of(items).items():
            print(f"{group}  {members[0].summary}")
            for item in members:
                print(f"  {item.name:<{width}}  {_line(item, facts[item.name])}")
        return 0


@dataclass(frozen=True, kw_only=True)
class Describe:
    """Say what an experiment asks, how to judge it, what it costs, its commands and its configuration.

    For example:

      trm-train describe exp02a_01
      trm-train describe exp02a_01 --scale tiny
    """

    experiment: Annotated[Positional[str], arg(metavar="EXPERIMENT")]
    """Its name: `trm-train list`."""
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
        if self.json:
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
            }
            print(json.dumps({**facts, "config": config_to_json(config)}, indent=1))
            return 0
        alias = f", the run of {item.alias_of()}" if item.alias_of() else ""
        print(f"{item.name} ({item.group}{alias}; {setting})\n")
        if item.guide is not None:
            print(item.guide.text())
            if setting.scale != "full" and any(each.scale == "full" for each in everywhere.settings):
                print(
                    f"Scale:     {setting.scale}; numbers above are of the full scale, those of this run are below"
                )
            print(f"Here:      {item.varies}\n" if item.varies else "")
        print(f"Dataset:   {item.dataset()}")
        if cost:
            print(
                f"Computed:  {cost['training_flops']:.2g} FLOP of training, {cost['example_flops'] / 1e9:.3g} GFLOP"
            )
            print(
                f"           an example and step, {cost['evaluation_flops'] / 1e9:.3g} GFLOP an example evaluated;"
            )
            print(
                f"           {say_hours(cost['hours'])}; see docs/experiments/README.md for what is assumed"
            )
        print("\nCommands:")
        for command in commands.values():
            print(f"  {command}")
        print("\ndiffers from the defaults in:")
        for key, value in effective_identity(config).items():
            print(f"  {key} = {value}")
        for key, value in _execution(config).items():
            print(f"  {key} = {value}")
        return 0


def _execution(config: RunConfig) -> dict[str, object]:
    """What is chosen of how a run is carried out, which is no part of its identity."""
    usual = ExecutionConfig()
    return {
        f"execution.{each.name}": value
        for each in fields(usual)
        if (value := getattr(config.execution, each.name)) != getattr(usual, each.name)
    }


def commands_of(item: Experiment, wanted: Setting | None) -> dict[str, str]:
    """What a person types for an experiment, at the setting that was asked for, if one was."""
    at = "" if wanted is None else f" {wanted}"
    return {
        "build": f"trm-data build {item.dataset()}",
        "run": f"trm-train run {item.name}{at}",
        "evaluate": f"trm-eval run {item.name}{at}",
        "group": f"trm-train batch {item.group}{at}",
    }


def _cost(item: Experiment) -> dict[str, Any]:
    """Counted operations and hours by machine; empty where the dataset or the operations are unknown."""
    from trm_train.cost import MACHINES, cost_of
    from trm_train.experiments.dataset import plan_dataset

    planned = plan_dataset(item.dataset())
    if planned is None:
        return {}
    cost = cost_of(item.make(), planned.input_spec)
    if cost is None:
        return {}
    return {**asdict(cost), "hours": {machine.name: cost.hours(machine) for machine in MACHINES}}


def _facts(items: list[Experiment], layout: Layout) -> dict[str, dict[str, Any]]:
    """What is known of each experiment under a root, by its name."""
    from trm_data.named import first_name
    from trm_train.experiments.sources import with_puzzles_at_hand
    from trm_train.run.overview import overview

    learnt = {
        item.name: with_puzzles_at_hand(item.make(), {}, layout)[0].data.only_dataset() for item in items
    }
    data = {dataset: _data_state(dataset, layout) for dataset in set(learnt.values())}
    runs = overview(layout)
    facts: dict[str, dict[str, Any]] = {}
    for item in items:
        setting = item.setting()
        every = _runs_of(item, runs)
        identity = identity_hash(item.make())
        own = [
            one for one in every if one.record is not None and identity_hash(one.record.config) == identity
        ]
        best = [one.status.exact_accuracy for one in own if one.status is not None]
        facts[item.name] = {
            "name": item.name,
            "group": item.group,
            "summary": item.summary,
            "varies": item.varies,
            "scale": setting.scale,
            "data": setting.data,
            "dataset": first_name(learnt[item.name]),
            "dataset_ready": data[learnt[item.name]] == "there",
            "dataset_state": data[learnt[item.name]],
            "alias_of": item.alias_of(),
            "runs": len(own),
            "runs_done": sum(one.condition == "done" for one in own),
            "runs_of_other_options": len(every) - len(own),
            "best_validation": max((value for value in best if value is not None), default=None),
        }
    return facts


def _data_state(dataset: str, layout: Layout) -> Literal["there", "missing", "damaged"]:
    """Whether a run finds its dataset, under the name that it has in the run's configuration."""
    from trm_data.errors import CorruptDatasetError, DatasetNotFoundError
    from trm_data.manifest import read_manifest

    try:
        read_manifest(layout, dataset)
    except DatasetNotFoundError:
        return "missing"
    except CorruptDatasetError:
        return "damaged"
    return "there"


def _runs_of(item: Experiment, runs: list[RunOverview]) -> list[RunOverview]:
    """The runs of an experiment at its setting, of any configuration."""
    from trm_train.run.record import setting_of

    name = item.alias_of() or item.name
    return [
        one
        for one in runs
        if one.record is not None
        and one.record.experiment == name
        and setting_of(one.record) == item.setting()
    ]


def _line(item: Experiment, facts: dict[str, Any]) -> str:
    alias = f"the run of {facts['alias_of']}" if facts["alias_of"] else ""
    data = "" if facts["dataset_ready"] else f"data {facts['dataset_state']}"
    runs = f"{facts['runs_done']} of {facts['runs']} runs done" if facts["runs"] else ""
    other = facts["runs_of_other_options"]
    altered = f"{counted(other, 'run')} with other options" if other else ""
    best = (
        f"best validation {percent(facts['best_validation'])}" if facts["best_validation"] is not None else ""
    )
    return "; ".join(part for part in (item.varies, alias, data, runs, best, altered) if part)
