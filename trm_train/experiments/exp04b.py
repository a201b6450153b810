"""Data scaling: augmentations."""

from __future__ import annotations

from trm_train.experiments.claim import Alike, Better
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.setting import sudoku
from trm_train.experiments.study import Study, augmentations_of, puzzles

STUDY = Study(
    name="exp04b",
    guide=Guide(
        question="How many augmentations of a puzzle help?",
        varies="augmentations of each of 1,000 puzzles",
        fixed="all else of the baseline; at the scale tiny 500 puzzles with a tenth of the augmentations",
        expected="10 clearly worse, from some hundreds on no difference",
        judge_by="exact accuracy against augmentations",
        claims=(Better("exp04b_1000", "exp04b_0010", clearly=True), Alike("exp04b_2000", "exp04b_0500")),
    ),
    quantity=Quantity("augmentations of a puzzle", "augmentations", augmentations_of),
)

for aug in (10, 100, 500, 1_000, 2_000):
    STUDY.add(
        f"exp04b_{aug:04d}",
        lambda config: f"{augmentations_of(config):,} augmentation{'s' * (augmentations_of(config) != 1)}",
        change=puzzles(lambda setting, aug=aug: sudoku(setting, aug=aug)),
        alias_of="baseline" if aug == 1_000 else None,
    )
