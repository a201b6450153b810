"""Execution options of a run: intervals, devices, memory and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trm_train.config.bounds import check_not_negative, check_positive


@dataclass(frozen=True, kw_only=True)
class ExecutionConfig:
    """Execution options of a run: intervals, devices, memory and limits.

    They do not change the training result, except for rounding with other values of `model_parallel`,
    `shard_parameters`, `micro_batches`, `rematerialise`, or `steps_per_dispatch` above 1. `validation_examples` and
    the options that keep weights affect which checkpoint is `best`.
    """

    log_every: int = 20
    """Console interval in steps; the metric tables have every step."""
    validate_every: int = 1_000
    """Validation interval in steps (0: never)."""
    validation_examples: int = 0
    """Maximum validation examples, for each dataset of a mixture (0: all)."""
    checkpoint_every: int = 1_000
    """Checkpoint interval in steps."""
    keep_weights: int = 0
    """Number of newest weights-only checkpoints to keep (0: all)."""
    keep_weights_every: int = 0
    """When old weights are pruned, keep every N-th step (0: keep none)."""
    keep_best_weights: bool = True
    """When old weights are pruned, keep those with the best validation."""
    model_parallel: int = 1
    """Devices along the mesh axis `model`; the others are along `data`."""
    shard_parameters: bool = False
    """Split parameters, optimizer state and average over all devices; they are gathered at the start of every step."""
    micro_batches: int | Literal["auto"] = 1
    """Number of microbatches of a batch, to save memory; the gradient is that of the whole batch. auto: the fewest
    that fit into the devices."""
    rematerialise: bool = False
    """Recompute activations inside a level in the backward pass: less memory, more time."""

    steps_per_dispatch: int = 1
    """Training steps of a dispatch, for small models whose steps are shorter than the host's preparation. A stop and
    the console wait for all of them."""
    device_rows: bool = False
    """Keep the training rows on every device; a batch is then sent as row numbers."""

    stall_s: float = 1_200.0
    """Seconds without a step (at least 20 times the longest step) until the process ends with the tracebacks of its
    threads and code 1 (0: never)."""
    save_limit_s: float = 1_800.0
    """Maximum seconds of a checkpoint; then the process ends with the tracebacks of its threads and code 1 (0: no
    limit)."""
    device_tflops: float = 0.0
    """Peak of one device in TFLOP/s, for the utilization `mfu` (0: the known peak of its kind)."""

    def check(self) -> None:
        """Check intervals, counts and limits.

        Raises:
            ConfigError: A value is not allowed; the message has the key, the value and what is allowed.
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
                "execution.save_limit_s": self.save_limit_s,
                "execution.stall_s": self.stall_s,
                "execution.keep_weights": self.keep_weights,
                "execution.keep_weights_every": self.keep_weights_every,
                "execution.validate_every": self.validate_every,
                "execution.validation_examples": self.validation_examples,
            }
        )
