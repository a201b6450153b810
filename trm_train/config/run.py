"""What a run is, as frozen dataclasses. Imports no jax, so that listing experiments stays fast.

`RunConfig` has two kinds of parts. Identity (`data`, `model`, `optim`, `total_steps`, `seed`) changes the
mathematics and stands in the run's name (as a hash, and the seed itself); execution (`execution`) says how and
where it runs and may differ from start to start of the same run.

Keys keep the words of the published configuration in snake case (docs/glossary.md lists them).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from trm_train.errors import ConfigError

Mixer = Literal["mlp_t", "attention"]
PosEncodings = Literal["none", "rope", "learned"]
Dtype = Literal["bfloat16", "float32"]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The training data."""

    dataset: str
    """Name of a built dataset under the root (`trm-data list`)."""
    global_batch_size: int = 768
    """Slots of the whole mesh, over all hosts."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The network and its recursion. Source: the TRM paper and its published code."""

    hidden_size: int = 512
    """Width D."""
    num_heads: int = 8
    expansion: float = 4.0
    """SwiGLU expansion; the inner width is rounded up to a multiple of 256."""
    num_layers: int = 2
    mixer: Mixer = "mlp_t"
    """How positions mix: `mlp_t` (SwiGLU over the token axis) or bidirectional `attention`."""
    pos_encodings: PosEncodings = "none"
    h_cycles: int = 3
    """Updates of z_H in one supervision step (T in the paper); only the last carries gradient."""
    l_cycles: int = 6
    """Updates of z_L for each update of z_H (n in the paper)."""
    halt_max_steps: int = 16
    """Supervision steps at most per example in training, and always in evaluation."""
    halt_exploration_prob: float = 0.1
    no_act_continue: bool = True
    """True: halt when q_halt > 0. False (the continue loss) is not available for this model."""
    puzzle_emb_ndim: int | None = None
    """Width of a puzzle-embedding row; None follows `hidden_size`, 0 removes the puzzle positions."""
    puzzle_emb_len: int = 16
    """Puzzle positions P in front of the cells; 0 means ceil(puzzle_emb_ndim / hidden_size)."""
    forward_dtype: Dtype = "bfloat16"
    """Compute dtype; parameters are always float32."""


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """AdamATan2 for the network, sign-SGD for the puzzle embedding. Source: the TRM paper and its published code."""

    lr: float = 1e-4
    lr_warmup_steps: int = 2_000
    lr_min_ratio: float = 1.0
    """Cosine decay ends at `lr_min_ratio * lr`; 1.0 keeps the rate constant after the warm-up."""
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 1.0
    puzzle_emb_lr: float = 1e-4
    puzzle_emb_weight_decay: float = 1.0
    ema_rate: float = 0.999
    """Rate of the exponential moving average of the trained parameters; 0 copies them (no averaging)."""
    freeze_weights: bool = False
    """Only the puzzle embedding learns."""


@dataclass(frozen=True, kw_only=True)
class ExecutionConfig:
    """How a run is carried out; nothing here changes its numbers."""

    log_every: int = 20
    """Steps between two lines on the console; every step is in the metric tables."""
    validate_every: int = 1_000
    """Steps between two evaluations on the validation split; 0 never."""
    validation_examples: int = 0
    """Validation examples at most per evaluation; 0 means all."""
    checkpoint_every: int = 1_000
    keep_weights: int = 0
    """Weights-only checkpoints kept (the newest); 0 keeps all of them."""
    model_parallel: int = 1
    """Devices along the mesh axis `model`; the others lie along `data`."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything one training run needs."""

    data: DataConfig
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    total_steps: int
    """Optimizer steps; one supervision step each."""
    seed: int = 0
    execution: ExecutionConfig = field(default_factory=ExecutionConfig)


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """What the model must know of its dataset: shapes and sizes that are not configuration."""

    sequence_length: int
    """Cells S of a row."""
    vocabulary_size: int
    num_identifiers: int
    """Rows of the puzzle-embedding table that carry meaning, identifier 0 included."""
    ignore_label: int = 0
    """Cells with this label add nothing to loss or metrics (PAD)."""


IDENTITY = ("data", "model", "optim", "total_steps")
"""Parts of `RunConfig` that change the mathematics; the seed does too, and stands in the run's name itself."""


def effective_identity(config: RunConfig) -> dict[str, Any]:
    """The identity fields that differ from their defaults, so that a new field orphans no old run."""
    return {
        key: value for part in IDENTITY for key, value in _non_defaults(getattr(config, part), part).items()
    }


def identity_hash(config: RunConfig) -> str:
    """sha256 over the effective identity, hexadecimal."""
    return hashlib.sha256(json.dumps(effective_identity(config), sort_keys=True).encode()).hexdigest()


def config_to_json(config: RunConfig) -> dict[str, Any]:
    """Plain JSON values, read back by `config_from_json`."""
    return dataclasses.asdict(config)


def config_from_json(value: dict[str, Any]) -> RunConfig:
    """Inverse of `config_to_json`; fields that a newer version added take their defaults.

    Raises:
        ConfigError: A key that this version does not know.
    """
    parts: dict[str, Any] = {
        "data": DataConfig,
        "model": ModelConfig,
        "optim": OptimConfig,
        "execution": ExecutionConfig,
    }
    try:
        fields = {key: parts[key](**part) if key in parts else part for key, part in value.items()}
        return RunConfig(**fields)
    except TypeError as error:
        raise ConfigError(f"not a run configuration that this version knows: {error}") from error


def check_config(config: RunConfig) -> None:
    """Refuse what can be refused without the dataset or the devices.

    Raises:
        ConfigError: Names the key, what it got and what is allowed.
    """
    positive = {
        "data.global_batch_size": config.data.global_batch_size,
        "model.hidden_size": config.model.hidden_size,
        "model.num_layers": config.model.num_layers,
        "model.num_heads": config.model.num_heads,
        "model.h_cycles": config.model.h_cycles,
        "model.l_cycles": config.model.l_cycles,
        "model.halt_max_steps": config.model.halt_max_steps,
        "total_steps": config.total_steps,
        "execution.checkpoint_every": config.execution.checkpoint_every,
        "execution.log_every": config.execution.log_every,
        "execution.model_parallel": config.execution.model_parallel,
    }
    for key, value in positive.items():
        if value < 1:
            raise ConfigError(f"{key}: at least 1, got {value}")
    not_negative = {
        "optim.lr": config.optim.lr,
        "optim.puzzle_emb_lr": config.optim.puzzle_emb_lr,
        "optim.weight_decay": config.optim.weight_decay,
        "optim.puzzle_emb_weight_decay": config.optim.puzzle_emb_weight_decay,
        "optim.lr_warmup_steps": config.optim.lr_warmup_steps,
        "model.puzzle_emb_len": config.model.puzzle_emb_len,
        "model.puzzle_emb_ndim": config.model.puzzle_emb_ndim or 0,
        "model.expansion": config.model.expansion,
        "execution.keep_weights": config.execution.keep_weights,
        "execution.validate_every": config.execution.validate_every,
        "execution.validation_examples": config.execution.validation_examples,
    }
    for key, value in not_negative.items():
        if not 0 <= value < math.inf:
            raise ConfigError(f"{key}: a number of at least 0, got {value:g}")
    for key, value in {"optim.beta1": config.optim.beta1, "optim.beta2": config.optim.beta2}.items():
        if not 0 <= value < 1:
            raise ConfigError(f"{key}: at least 0 and below 1, got {value:g}")
    fractions = {
        "model.halt_exploration_prob": config.model.halt_exploration_prob,
        "optim.lr_min_ratio": config.optim.lr_min_ratio,
        "optim.ema_rate": config.optim.ema_rate,
    }
    for key, value in fractions.items():
        if not 0 <= value <= 1:
            raise ConfigError(f"{key}: from 0 to 1, got {value:g}")
    if config.optim.lr_warmup_steps >= config.total_steps:
        raise ConfigError(
            f"optim.lr_warmup_steps: below total_steps ({config.total_steps}), got {config.optim.lr_warmup_steps}"
        )
    if not 0 <= config.seed < 2**31:
        raise ConfigError(f"seed: from 0 to 2^31 - 1, got {config.seed}")


def _non_defaults(value: Any, name: str) -> dict[str, Any]:
    if not dataclasses.is_dataclass(value):
        return {name: value}
    return {
        f"{name}.{f.name}": getattr(value, f.name)
        for f in dataclasses.fields(value)
        if f.default is dataclasses.MISSING or getattr(value, f.name) != f.default
    }
