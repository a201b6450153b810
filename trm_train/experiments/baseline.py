"""The published recipes. Source: the TRM paper (arXiv 2510.04871) and its published code."""

from __future__ import annotations

import dataclasses

from trm_train.config.data import DataConfig
from trm_train.config.run import ModelConfig, OptimConfig, RunConfig
from trm_train.experiments.guide import Guide
from trm_train.experiments.registry import experiment


@experiment(
    Guide(
        question="Does this trainer reach the published 87.4% exact accuracy on Sudoku-Extreme?",
        varies="nothing",
        fixed="the published recipe: 1,000 puzzles with 1,000 augmentations, mlp_t without positions, D 512, 2 layers, "
        "H 3, L 6, batch 768, constant rate after warm-up, 50,000 epochs = 65,104 steps",
        expected="87.4% exact on the 422,786 test puzzles (reproductions: 84.8 to 87.3 by seed)",
        judge_by="`trm-eval run` with EMA weights on the whole test split",
        cost="42.7 GFLOP per example and step: 2.1e18 FLOP in all",
    )
)
def trm_sudoku_mlp() -> RunConfig:
    """The paper's best Sudoku run."""
    return RunConfig(
        data=DataConfig(dataset="sudoku-extreme-1k-aug-1000", global_batch_size=768),
        model=ModelConfig(mixer="mlp_t", pos_encodings="none", h_cycles=3, l_cycles=6),
        optim=OptimConfig(lr=1e-4, weight_decay=1.0, puzzle_emb_lr=1e-4, puzzle_emb_weight_decay=1.0),
        total_steps=65_104,
    )


@experiment(
    Guide(
        question="How far does the published Sudoku recipe get on generated puzzles, which anyone can rebuild?",
        varies="the puzzles (generated instead of Sudoku-Extreme)",
        fixed="all else of trm_sudoku_mlp",
        expected="above trm_sudoku_mlp: random minimal puzzles need fewer guesses",
        judge_by="`trm-eval run` on the test split, by rating (`trm-eval sql @accuracy_by_rating`)",
        cost="as trm_sudoku_mlp",
    )
)
def sudoku_generated() -> RunConfig:
    """The paper's best Sudoku run on puzzles of our own."""
    return dataclasses.replace(
        trm_sudoku_mlp(), data=DataConfig(dataset="sudoku-generated-1000-aug-1000", global_batch_size=768)
    )
