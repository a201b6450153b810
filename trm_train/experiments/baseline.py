"""Baseline of the study at each scale, and the published recipe.

Source: the TRM paper (arXiv 2510.04871) and its published code.
"""

from __future__ import annotations

import dataclasses

from trm_train.config.data import DataConfig
from trm_train.config.run import ExecutionConfig, ModelConfig, OptimConfig, RunConfig
from trm_train.config.values import Curriculum
from trm_train.experiments.claim import Reaches
from trm_train.experiments.guide import Guide
from trm_train.experiments.registry import Experiment, add_experiment, experiment
from trm_train.experiments.setting import SETTINGS, Setting, sudoku

BATCH = 6_144
STEPS = 8_138
"""Steps of 50,000 epochs of 1,000 puzzles at this batch size."""


def baseline(setting: Setting) -> RunConfig:
    """Return the configuration that all other runs of the study are compared with."""
    return {"full": _full, "laptop": _laptop, "tiny": _tiny}[setting.scale](sudoku(setting))


def _full(dataset: str) -> RunConfig:
    return RunConfig(
        data=DataConfig(dataset=dataset, global_batch_size=BATCH),
        total_steps=STEPS,
        execution=ExecutionConfig(validate_every=STEPS // 10, checkpoint_every=1_000),
    )


def _laptop(dataset: str) -> RunConfig:
    return RunConfig(
        data=DataConfig(dataset=dataset, global_batch_size=64),
        model=ModelConfig(
            hidden_size=128,
            h_cycles=1,
            l_cycles=3,
            halt_first_max_steps=4,
            puzzle_emb_len=1,
            forward_dtype="float32",
        ),
        optim=OptimConfig(
            lr=2e-3,
            lr_warmup_steps=100,
            lr_min_ratio=0.0,
            weight_decay=0.1,
            puzzle_emb_lr=2e-3,
            puzzle_emb_weight_decay=0.1,
            ema_rate=0.998,
        ),
        total_steps=8_000,
        execution=ExecutionConfig(validate_every=800, checkpoint_every=400, log_every=50),
    )


def _tiny(dataset: str) -> RunConfig:
    return RunConfig(
        data=DataConfig(dataset=dataset, global_batch_size=32),
        model=ModelConfig(hidden_size=64, halt_max_steps=4, puzzle_emb_len=1, forward_dtype="float32"),
        optim=OptimConfig(
            lr=2e-3,
            lr_warmup_steps=50,
            weight_decay=0.1,
            puzzle_emb_lr=2e-3,
            puzzle_emb_weight_decay=0.1,
            ema_rate=0.99,
        ),
        total_steps=1_000,
        execution=ExecutionConfig(validate_every=100, checkpoint_every=500, log_every=100),
    )


add_experiment(
    Experiment(
        "baseline",
        "baseline",
        baseline,
        Guide(
            question="How good is the run that all others of the study are compared with?",
            varies="nothing",
            fixed="Sudoku-Extreme, 1,000 puzzles with 1,000 augmentations, mlp_t, width 512, 2 layers, H 3, L 6, batch "
            "6,144, 8,138 steps = 50,000 epochs, rate 1e-4 after 2,000 steps of warm-up, decay 1.0, EMA 0.999, "
            "bfloat16, at most 16 supervision steps, exploration 0.1",
            expected="somewhat below the 87.4% of trm_sudoku_mlp: 8,138 steps of 6,144 slots load as many rows as the "
            "published 65,104 steps of 768, but are an eighth of the optimizer steps",
            judge_by="`trm-eval run` with EMA weights on the whole test split; three seeds, for what "
            "differences of the others mean",
        ),
        settings=SETTINGS,
    )
)


@experiment(
    Guide(
        question="Does the baseline on a laptop get as far in less time with fewer cycles at first?",
        varies="one L cycle for a quarter of the steps, two for the next quarter, then three",
        fixed="all else of `baseline --scale laptop`, over 9,000 steps instead of 8,000",
        expected="the baseline's 90.6% (88.6 to 92.3), with 9% fewer FLOPs",
        judge_by="`trm-eval run` with EMA weights on the whole test split, and the seconds of training",
        claims=(Reaches("sudoku_fast", 88.6),),
        cost="about 40 minutes on 2 CPU cores",
    ),
    setting=Setting("laptop", "generated"),
)
def sudoku_fast() -> RunConfig:
    """9x9 Sudoku on a laptop, with fewer cycles at first."""
    config = baseline(Setting("laptop", "generated"))
    deeper = Curriculum(0.75, ((1, 1), (1, 2), (1, 3)))
    return dataclasses.replace(
        config, model=dataclasses.replace(config.model, curriculum=deeper), total_steps=9_000
    )


@experiment(
    Guide(
        question="Does this trainer reach the published 87.4% exact accuracy on Sudoku-Extreme?",
        varies="nothing",
        fixed="the published recipe: 1,000 puzzles with 1,000 augmentations, mlp_t without positions, D 512, 2 layers, "
        "H 3, L 6, batch 768, constant rate after warm-up, 50,000 epochs = 65,104 steps",
        expected="87.4% exact on the 422,786 test puzzles (reproductions: 84.8 to 87.3 by seed)",
        judge_by="`trm-eval run` with EMA weights on the whole test split",
        claims=(Reaches("trm_sudoku_mlp", 87.4),),
    ),
    setting=SETTINGS[0],
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
    ),
    setting=Setting("full", "generated"),
)
def sudoku_generated() -> RunConfig:
    """The paper's best Sudoku run, on generated puzzles."""
    return dataclasses.replace(
        trm_sudoku_mlp(), data=DataConfig(dataset="sudoku-generated-1000-aug-1000", global_batch_size=768)
    )
