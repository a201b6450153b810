"""Depth against recursion: the same effective depth in layers or in cycles."""

from __future__ import annotations

from trm_train.experiments.claim import Better, nearly_best
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.study import Study

STUDY = Study(
    name="exp03",
    guide=Guide(
        question="Is the same effective depth better spent on layers or on recursion?",
        varies="layers and L cycles, whose product is 12",
        fixed="all else of the baseline, whose L is 3 at the scale laptop: there (2, 6) is the run of exp02a_06",
        expected="two layers best or nearly so; six layers overfit (the paper: 79.5% with four layers, 87.4% with two)",
        judge_by="exact accuracy against layers, at nearly equal FLOPs",
        claims=(
            Better("exp03b", "exp03e", clearly=True),
            *nearly_best("exp03b", "exp03a", "exp03c", "exp03d"),
        ),
    ),
    quantity=Quantity("layers", "layers", lambda config: config.model.num_layers, log=False),
)

for letter, layers, cycles in (("a", 1, 12), ("b", 2, 6), ("c", 3, 4), ("d", 4, 3), ("e", 6, 2)):
    STUDY.add(
        f"exp03{letter}",
        f"{layers} layer{'s' if layers > 1 else ''}, L {cycles}",
        {"model.num_layers": layers, "model.l_cycles": cycles},
        alias_of={"full": "baseline", "laptop": "exp02a_06", "tiny": "baseline"} if layers == 2 else None,
    )
