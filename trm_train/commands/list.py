"""`trm-train list`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from trm_data.command import Json, Root, emit
from trm_data.storage.root import Layout, resolve_root
from trm_train.commands.common import DataOption, Patterns, ScaleOption, counted, validation_of
from trm_train.config.run import identity_hash
from trm_train.experiments.registry import (
    Experiment,
    groups_of,
    select_experiments,
)
from trm_train.experiments.setting import parse_setting

OTHERS = 3
"""Maximum number of different option sets that a list shows."""

if TYPE_CHECKING:
    from trm_train.runs.status import RunOverview


@dataclass(frozen=True, kw_only=True)
class List:
    """List experiments: variations, available data, runs and their best validation.

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
        """Print one line for each experiment, by group."""
        items = select_experiments(self.patterns, parse_setting(self.scale, self.data))
        facts = _facts(items, resolve_root(self.root))
        emit(list(facts.values()), _lines(items, facts), as_json=self.json)
        return 0


def _lines(items: Sequence[Experiment], facts: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    width = max(map(len, facts))
    for group, members in groups_of(items).items():
        yield f"{group}  {members[0].summary}"
        for item in members:
            yield f"  {item.name:<{width}}  {_line(item, facts[item.name])}"


def _facts(items: list[Experiment], layout: Layout) -> dict[str, dict[str, Any]]:
    """Return the facts about each experiment under a root, by name."""
    from trm_data.named import first_name
    from trm_train.experiments.dataset import with_puzzles_at_hand
    from trm_train.runs.status import overview

    learnt = {item.name: with_puzzles_at_hand(item.make(), {}, layout)[0].data.names for item in items}
    data = {names: _data_state(names, layout) for names in set(learnt.values())}
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
        optimal = [one.status.optimal_share for one in own if one.status is not None]
        facts[item.name] = {
            "name": item.name,
            "group": item.group,
            "summary": item.summary,
            "varies": item.varies,
            "scale": setting.scale,
            "data": setting.data,
            "dataset": "+".join(map(first_name, learnt[item.name])),
            "dataset_ready": data[learnt[item.name]] == "there",
            "dataset_state": data[learnt[item.name]],
            "alias_of": item.alias_of(),
            "runs": len(own),
            "runs_done": sum(one.condition == "done" for one in own),
            "runs_of_other_options": len(every) - len(own),
            "other_runs": [
                {"run": one.run, "differs": one.differs, "dataset": one.dataset}
                for one in every
                if one not in own
            ],
            "best_validation": max((value for value in best if value is not None), default=None),
            "best_optimal_share": max((value for value in optimal if value is not None), default=None),
        }
    return facts


def _data_state(datasets: Sequence[str], layout: Layout) -> Literal["there", "missing", "damaged"]:
    """Return the state of a run's datasets, under the names in its configuration."""
    from trm_data.errors import CorruptDatasetError, DatasetNotFoundError
    from trm_data.manifest import read_manifest

    try:
        for name in datasets:
            manifest = read_manifest(layout, name)
            if missing := layout.dataset(manifest.name).missing_shards(manifest.files):
                raise CorruptDatasetError(f"{missing[0]}: is missing")
    except DatasetNotFoundError:
        return "missing"
    except CorruptDatasetError:
        return "damaged"
    return "there"


def _runs_of(item: Experiment, runs: list[RunOverview]) -> list[RunOverview]:
    """Return the runs of an experiment at its setting, with any configuration."""
    from trm_train.runs.record import setting_of

    name = item.alias_of() or item.name
    return [
        one
        for one in runs
        if one.record is not None
        and one.record.experiment == name
        and setting_of(one.record) == item.setting()
    ]


def _how(runs: Sequence[Mapping[str, Any]]) -> str:
    """Format how runs differ from their experiment, in parentheses; only the first `OTHERS` differences are shown."""
    differ = list(dict.fromkeys(run["differs"] for run in runs if run["differs"]))
    more = "; ..." if len(differ) > OTHERS else ""
    return f" ({'; '.join(differ[:OTHERS])}{more})" if differ else ""


def _line(item: Experiment, facts: dict[str, Any]) -> str:
    alias = f"the run of {facts['alias_of']}" if facts["alias_of"] else ""
    data = f"data {'' if facts['dataset_ready'] else facts['dataset_state'] + ': '}{facts['dataset']}"
    runs = f"{facts['runs_done']} of {facts['runs']} runs done" if facts["runs"] else ""
    other = facts["runs_of_other_options"]
    altered = f"{counted(other, 'run')} with other options{_how(facts['other_runs'])}" if other else ""
    best = (
        f"best validation {validation_of(facts['best_validation'], facts['best_optimal_share'])}"
        if facts["best_validation"] is not None
        else ""
    )
    return "; ".join(part for part in (item.varies, alias, data, runs, best, altered) if part)
