"""`trm-train list`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trm_data.command import Json, emit
from trm_train.commands.common import DataOption, Patterns, ScaleOption
from trm_train.experiments.registry import Experiment, groups_of, select_experiments
from trm_train.experiments.setting import parse_setting


@dataclass(frozen=True, kw_only=True)
class List:
    """List experiments by group: what each varies, and its dataset.

    `trm-train status` lists runs, `trm-data list` datasets.

    For example:

      trm-train list
      trm-train list exp04 'contrib*' --scale tiny
    """

    patterns: Patterns = ()
    scale: ScaleOption = None
    data: DataOption = None
    json: Json = False

    def run(self) -> int:
        """Print one line for each experiment, by group."""
        items = select_experiments(self.patterns, parse_setting(self.scale, self.data))
        facts = [
            {
                "name": item.name,
                "group": item.group,
                "summary": item.summary,
                "varies": item.varies,
                "scale": item.setting().scale,
                "data": item.setting().data,
                "dataset": item.dataset(),
                "alias_of": item.alias_of(),
            }
            for item in items
        ]
        emit(facts, _lines(items), as_json=self.json)
        return 0


def _lines(items: Sequence[Experiment]) -> Iterator[str]:
    width = max(len(item.name) for item in items)
    for group, members in groups_of(items).items():
        yield f"{group}  {members[0].summary}"
        for item in members:
            alias = f"the run of {item.alias_of()}" if item.alias_of() else ""
            said = "; ".join(part for part in (item.varies, alias, f"data {item.dataset()}") if part)
            yield f"  {item.name:<{width}}  {said}"
