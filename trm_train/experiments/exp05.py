"""Deep supervision: supervision steps of an example."""

from __future__ import annotations

from trm_train.experiments.claim import Alike, Better
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.setting import By
from trm_train.experiments.study import Study

STUDY = Study(
    name="exp05",
    guide=Guide(
        question="How many supervision steps does an example need?",
        varies="supervision steps at most (`halt_max_steps`), in training and in evaluation",
        fixed="all else of the baseline, in which they rise from 4 at the scale laptop; a quarter of the supervision "
        "steps at the scale tiny",
        expected="few steps clearly worse; more than 16 (4 at the scale tiny) cost evaluation time and help little",
        judge_by="exact accuracy against steps; the ends should be further apart than their 95% intervals",
        claims=(Better("exp05_f", "exp05_a", clearly=True), Alike("exp05_f", "exp05_d")),
    ),
    quantity=Quantity("supervision steps", "steps", lambda config: config.model.halt_max_steps),
)

for letter, steps in zip("abcdef", (4, 8, 12, 16, 24, 32), strict=True):
    STUDY.add(
        f"exp05_{letter}",
        lambda config: f"{config.model.halt_max_steps} step{'s' * (config.model.halt_max_steps != 1)}",
        {
            "model.halt_max_steps": By(steps, steps, steps // 4),
            "model.halt_first_max_steps": By(0, 4 if steps > 4 else 0, 0),
        },
        alias_of="baseline" if steps == 16 else None,
    )
