"""First run of a new user: small grids, a small network, minutes on a laptop."""

from __future__ import annotations

from trm_train.config.data import DataConfig
from trm_train.config.run import ExecutionConfig, ModelConfig, OptimConfig, RunConfig
from trm_train.experiments.claim import Reaches
from trm_train.experiments.guide import Guide
from trm_train.experiments.registry import experiment
from trm_train.experiments.setting import Setting


@experiment(
    Guide(
        question="Can a tiny recursive model learn 6x6 Sudoku from 500 puzzles, in minutes on two cores?",
        varies="nothing",
        fixed="500 generated puzzles with 1,000 augmentations each, width 96, H 2, L 2, four supervision steps, batch "
        "32, rate 4e-3 with cosine decay to a tenth",
        expected="at least 95% exact accuracy on 1,000 held-out puzzles that are equivalent to no training puzzle",
        judge_by="`trm-eval run`, exact accuracy with EMA weights, and how it holds for puzzles that need guessing; "
        "more supervision steps in evaluation (`--steps 16`) should help",
        claims=(Reaches("quickstart", 95.0),),
        cost="about 3 minutes on 2 CPU cores",
    ),
    setting=Setting("tiny", "generated"),
)
def quickstart() -> RunConfig:
    """6x6 Sudoku on a laptop."""
    return RunConfig(
        data=DataConfig(dataset="sudoku-2x3-generated-500-aug-1000", global_batch_size=32),
        model=ModelConfig(
            hidden_size=96,
            num_heads=4,
            h_cycles=2,
            l_cycles=2,
            halt_max_steps=4,
            puzzle_emb_len=1,
            forward_dtype="float32",
        ),
        optim=OptimConfig(
            lr=4e-3,
            lr_warmup_steps=50,
            lr_min_ratio=0.1,
            weight_decay=0.1,
            puzzle_emb_lr=1e-3,
            puzzle_emb_weight_decay=0.1,
            ema_rate=0.99,
        ),
        total_steps=1_500,
        execution=ExecutionConfig(validate_every=500, checkpoint_every=500, log_every=100),
    )
