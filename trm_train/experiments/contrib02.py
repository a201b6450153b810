"""Adaptive halting: exploration that decreases over training."""

from __future__ import annotations

from trm_train.config.values import Linear
from trm_train.experiments.claim import Alike
from trm_train.experiments.guide import Guide
from trm_train.experiments.study import Study

STUDY = Study(
    name="contrib02",
    guide=Guide(
        question="Should slots explore more at first, and less in the end?",
        varies="the probability that a slot may not halt early",
        fixed="all else of the baseline",
        expected="little difference in accuracy; fewer supervision steps in the end",
        judge_by="exact accuracy, halting accuracy and mean supervision steps",
        claims=(Alike("contrib02_adaptive", "contrib02_baseline"),),
    ),
)

STUDY.add("contrib02_baseline", "0.1 throughout", alias_of="baseline")
STUDY.add(
    "contrib02_adaptive", "0.3 to 0.05 over training", {"model.halt_exploration_prob": Linear(0.3, 0.05)}
)
