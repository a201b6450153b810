"""Curriculum recursion: fewer cycles at first."""

from __future__ import annotations

from trm_train.config.values import Curriculum
from trm_train.experiments.claim import NoWorse
from trm_train.experiments.guide import Guide
from trm_train.experiments.setting import By
from trm_train.experiments.study import Study

AS_PUBLISHED = Curriculum(0.2, ((1, 2), (2, 4), (3, 6)))
WITH_H_1 = Curriculum(0.2, ((1, 1), (1, 2), (1, 3)))
"""Curriculum at the scale laptop, whose baseline has half of the L cycles and one H cycle."""

STUDY = Study(
    name="contrib01",
    guide=Guide(
        question="Can training begin with fewer cycles, and be as good for less?",
        varies="cycles (H, L) over training",
        fixed="all else of the baseline; validation and evaluation always use the final cycles; at the scale full the "
        "first fifth of training, 1,628 steps, lies inside the warm-up of 2,000",
        expected="the same accuracy at 8% fewer FLOPs (CGAR, with longer stages: 1.7 times faster)",
        judge_by="exact accuracy against FLOPs, and the validations of the first fifth",
        claims=(NoWorse("contrib01_curriculum", "contrib01_baseline"),),
    ),
)

STUDY.add("contrib01_baseline", "the same in all stages", alias_of="baseline")
STUDY.add(
    "contrib01_curriculum",
    lambda config: (
        f"{', '.join(map(str, config.model.curriculum.cycles))} in equal stages over the first fifth of training"
    ),
    {"model.curriculum": By(AS_PUBLISHED, WITH_H_1, AS_PUBLISHED)},
)
