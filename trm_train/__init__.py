"""Trainer of the Tiny Recursive Model: configuration, model, optimizers, training step and loop.

From Python:

    run = trm_train.train("quickstart", model={"hidden_size": 64}, total_steps=400)
    run.metrics()                       # a polars frame, a row per step and split
    trm_train.sweep("quickstart", {"model.hidden_size": [64, 96]}, seeds=[0, 1])
    trm_train.list_experiments()

Dimension letters, used throughout this package:

    B  batch: slots of the global batch (a slot holds one example over several supervision steps)
    S  cells of a puzzle
    P  puzzle positions, before the cells
    L  all positions, L = P + S
    D  width of the network
    H  attention heads
    V  vocabulary

Other letters are explained where they occur: `I` is the inner width of a SwiGLU, `N` the width of a puzzle-embedding
row, `R` the number of rows of the puzzle-embedding table. A suffix in a variable name (`x_LxBxD`) marks a layout other
than `B L D`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trm_train.api import TrainedRun, add_lr_schedule, add_network, list_experiments, sweep, train

__all__ = ["TrainedRun", "add_lr_schedule", "add_network", "list_experiments", "sweep", "train"]


def __getattr__(name: str) -> object:
    """Import a public name on first use, so that commands start fast."""
    if name not in __all__:
        raise AttributeError(f"module 'trm_train' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module("trm_train.api"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
