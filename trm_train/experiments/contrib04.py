"""Consistency of cycles, and weights of supervision steps."""

from __future__ import annotations

from trm_train.experiments.claim import NoWorse
from trm_train.experiments.guide import Guide
from trm_train.experiments.study import Study

STUDY = Study(
    name="contrib04",
    guide=Guide(
        question="Does it help to ask the last cycle to change little, or to weight early supervision steps more?",
        varies="a term or a weight of the loss",
        fixed="all else of the baseline",
        expected="not known; a small weight of the consistency should not hurt",
        judge_by="exact accuracy, and exact accuracy at twice the supervision steps (`trm-eval run RUN --steps 16,32`)",
        claims=(
            NoWorse("contrib04_consistency_01", "contrib04_baseline"),
            NoWorse("contrib04_decay_09", "contrib04_baseline"),
        ),
    ),
)

STUDY.add("contrib04_baseline", "neither", alias_of="baseline")
for name, weight in (("01", 0.1), ("10", 1.0)):
    STUDY.add(
        f"contrib04_consistency_{name}",
        f"mean squared change of z_H over the last cycle, weighted by {weight:g}",
        {"loss.cycle_consistency": weight},
    )
for name, decay in (("09", 0.9), ("07", 0.7)):
    STUDY.add(
        f"contrib04_decay_{name}",
        f"supervision step k weighted by {decay:g}^(k - 1)",
        {"loss.supervision_decay": decay},
    )
