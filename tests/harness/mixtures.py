"""A root with two kinds of puzzle, and a run that trains on both."""

from __future__ import annotations

import dataclasses
from typing import Any

from tests.conftest import small_request
from trm_data.building.flow import build_dataset
from trm_data.kinds.maze.options import MazeOptions
from trm_data.storage.root import Layout
from trm_train.config.data import MixtureConfig
from trm_train.config.run import ExecutionConfig, ModelConfig, OptimConfig, RunConfig
from trm_train.console import RunConsole
from trm_train.experiments.registry import Experiment
from trm_train.training.loop import train
from trm_train.training.start import TrainResult

MIXED = RunConfig(
    data=MixtureConfig(datasets=("small", "mazes"), weights=(1.0, 1.0), global_batch_size=8),
    model=ModelConfig(
        hidden_size=16,
        num_heads=2,
        h_cycles=1,
        l_cycles=1,
        num_layers=1,
        puzzle_emb_len=1,
        halt_max_steps=3,
        forward_dtype="float32",
    ),
    optim=OptimConfig(lr=1e-2, puzzle_emb_lr=1e-2, lr_warmup_steps=2, weight_decay=0.1, ema_rate=0.5),
    total_steps=12,
    execution=ExecutionConfig(validate_every=6, checkpoint_every=4, log_every=5),
)
"""Sudoku has 36 cells and 8 tokens, mazes 25 and 6. The mixture has 36 and 13, with the mazes from token 8 on."""
EXPERIMENT = Experiment("mixed", "testing", lambda _: MIXED)


def build_mazes(layout: Layout, seed: int = 2) -> None:
    """Build 5x5 mazes: 12 for training under the 8 symmetries, 3 for validation, 4 for testing."""
    options = MazeOptions(rows=5, columns=5, min_path=6)
    sizes = {"size": 12, "aug": 7, "val_size": 3, "test_size": 4, "seed": seed}
    build_dataset(small_request(kind="maze", options=options, name="mazes", **sizes), layout)


def build_both(layout: Layout) -> None:
    """Build the datasets `small` and `mazes`."""
    build_dataset(small_request(), layout)
    build_mazes(layout)


def changed(**parts: Any) -> RunConfig:
    """Return `MIXED` with replaced fields of its parts."""
    config = MIXED
    for name, value in parts.items():
        of = getattr(config, name)
        new = dataclasses.replace(of, **value) if isinstance(value, dict) else value
        config = dataclasses.replace(config, **{name: new})
    return config


def run(layout: Layout, config: RunConfig = MIXED, **options: Any) -> TrainResult:
    """Train, and return the result."""
    with RunConsole(config, quiet=True) as console:
        return train(EXPERIMENT, config, layout, console, tracking="none", **options)
