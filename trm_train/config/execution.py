"""How a run is carried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trm_train.config.bounds import check_not_negative, check_positive


@dataclass(frozen=True, kw_only=True)
class ExecutionConfig:
    """How a run is carried out. What is learned stays the same, but for the rounding of another `model_parallel`,
    `shard_parameters`, `micro_batches`, `rematerialise`, or `steps_per_dispatch` of more than 1.

    `validation_examples` and what of weights is kept decide what is validated and kept, and so what `best` can be.
    """

    log_every: int = 20
    """Steps between two lines on the console; every step is in the metric tables."""
    validate_every: int = 1_000
    """Steps between two evaluations on the validation split; 0 never."""
    validation_examples: int = 0
    """Validation examples at most per evaluation, of a mixture of each dataset; 0 means all."""
    checkpoint_every: int = 1_000
    keep_weights: int = 0
    """Weights-only checkpoints kept (the newest); 0 keeps all of them."""
    keep_weights_every: int = 0
    """When old weights are pruned, keep every N-th step (0: keep none)."""
    keep_best_weights: bool = True
    """When old weights are pruned, keep those with the best validation."""
    model_parallel: int = 1
    """Devices along the mesh axis `model`; the others lie along `data`."""
    shard_parameters: bool = False
    """Split parameters, optimizer state and average over all devices; they are gathered at the start of every step."""
    micro_batches: int | Literal["auto"] = 1
    """Microbatches that a batch is computed in, one after the other, to save memory; the gradient is that of the whole
    batch. auto takes the fewest that fit into the devices."""
    rematerialise: bool = False
    """Compute what is inside a level again in the backward pass instead of keeping it: less memory, more time."""

    steps_per_dispatch: int = 1
    """Training steps that the devices are given at once: for small models, whose steps are over before the host has
    prepared the next one. A stop, and the console, wait for all of them."""
    device_rows: bool = False
    """Hold the rows of the training split on every device, so that a batch is sent as their numbers."""

    stall_s: float = 600.0
    """Seconds without a step, after the first, until a run is said to stand still; after twice as long it ends with
    exit code 5. 0 never. It is never less than 20 times the longest step."""
    save_limit_s: float = 1_800.0
    """Seconds that a checkpoint may take to be saved; then the run ends with exit code 5, and the same command resumes
    from the last checkpoint. 0 sets no limit."""
    min_examples_per_s: float = 0.0
    """A run that is slower for three minutes saves a checkpoint and ends with exit code 5; 0 never."""
    device_tflops: float = 0.0
    """What one device can do at most, for the share of it that is used; 0 takes what is known of its kind."""

    def check(self) -> None:
        """Refuse intervals and counts that cannot be.

        Raises:
            ConfigError: Names the key, what it got and what is allowed.
        """
        check_positive(
            {
                "execution.checkpoint_every": self.checkpoint_every,
                "execution.log_every": self.log_every,
                "execution.micro_batches": 1 if self.micro_batches == "auto" else self.micro_batches,
                "execution.model_parallel": self.model_parallel,
                "execution.steps_per_dispatch": self.steps_per_dispatch,
            }
        )
        check_not_negative(
            {
                "execution.device_tflops": self.device_tflops,
                "execution.min_examples_per_s": self.min_examples_per_s,
                "execution.save_limit_s": self.save_limit_s,
                "execution.stall_s": self.stall_s,
                "execution.keep_weights": self.keep_weights,
                "execution.keep_weights_every": self.keep_weights_every,
                "execution.validate_every": self.validate_every,
                "execution.validation_examples": self.validation_examples,
            }
        )
