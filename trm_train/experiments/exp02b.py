"""Recursion: updates of the answer."""

from __future__ import annotations

from trm_train.experiments.claim import Alike, Better
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.setting import Scale, Setting
from trm_train.experiments.study import Study

STUDY = Study(
    name="exp02b",
    guide=Guide(
        question="How many updates of the answer does a supervision step need?",
        varies="H cycles, of which only the last has a gradient",
        fixed="all else of the baseline, L 6 too; at the scale laptop the baseline has L 3 and H 1",
        expected="H 1 clearly worse (a gradient without recursion before it), little beyond 3",
        judge_by="exact accuracy against H, and against FLOPs",
        claims=(Better("exp02b_03", "exp02b_01", clearly=True), Alike("exp02b_05", "exp02b_03")),
    ),
    quantity=Quantity("H cycles", "cycles", lambda config: config.model.h_cycles, log=False),
)

BASELINES: dict[int, dict[Scale | Setting, str]] = {
    1: {"laptop": "baseline"},
    3: {"full": "baseline", "tiny": "baseline"},
}
"""Baseline aliases by scale, for each number of H cycles that equals the baseline."""

for cycles in (1, 2, 3, 4, 5):
    STUDY.add(
        f"exp02b_{cycles:02d}",
        f"H {cycles}",
        {"model.h_cycles": cycles},
        alias_of=BASELINES.get(cycles),
    )
