"""Recursion: updates of the latent state."""

from __future__ import annotations

from trm_train.experiments.claim import Alike, Better, rising
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.setting import By
from trm_train.experiments.study import Study

STUDY = Study(
    name="exp02a",
    guide=Guide(
        question="How many updates of the latent state does an update of the answer need?",
        varies="L cycles",
        fixed="all else of the baseline, H 3 too (1 at the scale laptop); compute grows with L; half of the cycles at "
        "the scale laptop",
        expected="steep at first, flat from 6 on",
        judge_by="exact accuracy against L, and against FLOPs; L 2 and L 12 should be further apart than their 95% "
        "intervals",
        claims=(
            Better("exp02a_06", "exp02a_01", clearly=True),
            *rising("exp02a_01", "exp02a_02", "exp02a_03"),
            Alike("exp02a_06", "exp02a_03"),
        ),
    ),
    quantity=Quantity("L cycles", "cycles", lambda config: config.model.l_cycles, log=False),
)

for number, cycles in enumerate((2, 4, 6, 8, 10, 12), start=1):
    STUDY.add(
        f"exp02a_{number:02d}",
        lambda config: f"L {config.model.l_cycles}",
        {"model.l_cycles": By(cycles, cycles // 2, cycles)},
        alias_of="baseline" if cycles == 6 else None,
    )
