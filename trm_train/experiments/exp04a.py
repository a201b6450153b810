"""Data scaling: training puzzles."""

from __future__ import annotations

from trm_train.experiments.claim import Better, rising
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.setting import sudoku
from trm_train.experiments.study import Study, puzzles, puzzles_of

STUDY = Study(
    name="exp04a",
    guide=Guide(
        question="How does exact accuracy grow with the number of training puzzles?",
        varies="training puzzles, each with 1,000 augmentations",
        fixed="all else of the baseline, the steps too: with epochs fixed 100 puzzles would have 813 steps, fewer than "
        "the warm-up; at the scale tiny half as many puzzles, with 100 augmentations",
        expected="steep up to 1,000, then slower",
        judge_by="exact accuracy against puzzles; 100 and 5,000 should be further apart than their 95% intervals",
        claims=(
            Better("exp04a_5000", "exp04a_100", clearly=True),
            *rising("exp04a_100", "exp04a_250", "exp04a_500", "exp04a_1000"),
        ),
    ),
    quantity=Quantity("training puzzles", "puzzles", puzzles_of),
)

for size in (100, 250, 500, 1_000, 2_000, 5_000):
    STUDY.add(
        f"exp04a_{size}",
        lambda config: f"{puzzles_of(config):,} puzzles",
        change=puzzles(lambda setting, size=size: sudoku(setting, size=size)),
        alias_of="baseline" if size == 1_000 else None,
    )
