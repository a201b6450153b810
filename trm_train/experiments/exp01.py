"""Model scaling: the width of the network."""

from __future__ import annotations

from trm_train.experiments.claim import Alike, Better, rising
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.setting import By
from trm_train.experiments.study import Study

STUDY = Study(
    name="exp01",
    guide=Guide(
        question="How does exact accuracy grow with the width of the network?",
        varies="width D, and the number of heads (which does nothing under mlp_t, the mixer of the baseline)",
        fixed="all else of the baseline, the learning rate too; an eighth of the width at the scale tiny, a quarter at "
        "the scale laptop",
        expected="more with every width up to 768 or so, then little: 1,000 puzzles are few",
        judge_by="the widths' exact accuracies with their 95% intervals; the narrowest and the widest should be "
        "further apart than those",
        claims=(
            Better("exp01f", "exp01a", clearly=True),
            *rising("exp01a", "exp01b", "exp01c", "exp01d"),
            Alike("exp01f", "exp01d"),
        ),
    ),
    quantity=Quantity("width", "features", lambda config: config.model.hidden_size),
)

for letter, width, heads in (
    ("a", 256, 4),
    ("b", 384, 6),
    ("c", 512, 8),
    ("d", 768, 8),
    ("e", 1_024, 8),
    ("f", 1_536, 8),
):
    STUDY.add(
        f"exp01{letter}",
        lambda config: f"D {config.model.hidden_size:,}",
        {"model.hidden_size": By(width, width // 4, width // 8), "model.num_heads": heads},
        alias_of="baseline" if width == 512 else None,
    )
