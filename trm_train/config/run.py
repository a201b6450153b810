"""Configuration of a run: frozen dataclasses. This module does not import jax, so listing experiments is fast.

`RunConfig` has two kinds of parts. Identity (`data`, `model`, `optim`, `loss`, `initial`, `total_steps`, `seed`)
changes the mathematics; the run's name contains a hash of it, and the seed. Execution (`execution`) sets how and where
the run is executed and may differ between starts of the same run. Most parts have a separate file, and each has a
`check`; `data`, `model` and `optim` have several forms (`values.py`).

Keys are the terms of the published configuration in snake case (docs/concepts.md lists them).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import re
import typing
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from tyro.conf import Fixed, Suppress

from trm_train.config.data import DATA, RowsConfig
from trm_train.config.model import ARCHITECTURES, BlocksConfig, CyclesConfig, ModelConfig, NetworkConfig
from trm_train.config.optim import OPTIMIZERS, LossConfig, OptimConfig, OptimizerConfig
from trm_train.config.values import (
    PARSERS,
    Alternatives,
    Spelled,
    check_integers,
    check_not_negative,
    check_positive,
    default_of,
)
from trm_train.errors import ConfigError


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
    """With keep_weights, also keep every N-th step (0: keep none)."""
    keep_best_weights: bool = True
    """With keep_weights, also keep those with the best validation."""
    model_parallel: int = 1
    """Devices along the mesh axis `model`; the others are along `data`."""
    shard_parameters: bool = False
    """Split parameters, optimizer state and average over all devices; they are gathered at the start of every step."""
    micro_batches: int | Literal["auto"] = "auto"
    """Number of microbatches of a batch, with the gradient of the whole batch. auto: the fewest that fit into the
    devices, or into the caches of a CPU."""
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


DIGEST = re.compile(r"([0-9a-f]{64})?")


@dataclass(frozen=True, kw_only=True)
class InitialConfig:
    """Weights that exist before the run; these fields are not command-line options."""

    weights: str = ""
    """Digest of the weights that training starts from (--init-from). Empty: weights are drawn from the seed."""
    imported: str = ""
    """sha256 of the weights file of an imported run (import-weights), which is never trained."""
    identifiers: str = ""
    """sha256 of the names of that file's embedding rows (--identifiers), if they were needed."""

    def check(self) -> None:
        """Check that every value is a digest.

        Raises:
            ConfigError: A value is not a digest; the message has the key and the value.
        """
        for name, value in asdict(self).items():
            if not DIGEST.fullmatch(value):
                raise ConfigError(
                    f"initial.{name}: got {value[:80]!r}; expected 64 hexadecimal digits or nothing"
                )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Complete configuration of a training run."""

    data: RowsConfig
    model: NetworkConfig = field(default_factory=ModelConfig)
    optim: OptimizerConfig = field(default_factory=OptimConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    total_steps: int
    """Optimizer steps; one supervision step each."""
    seed: int = 0
    """Seed of all random choices."""
    initial: Annotated[InitialConfig, Fixed, Suppress] = field(default_factory=InitialConfig)
    execution: ExecutionConfig = field(default_factory=ExecutionConfig)


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """Shapes and sizes of the dataset that the model needs and the configuration does not contain."""

    sequence_length: int
    """Cells S of a row."""
    vocabulary_size: int
    num_identifiers: int
    """Used rows of the puzzle-embedding table, identifier 0 included."""
    ignore_label: int = 0
    """Label (PAD) of cells that are ignored in loss and metrics."""
    grid: tuple[int, int] | None = None
    """Rows and columns of the grid of cells; None if the cells are not a grid, or if rows have different grids."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, without a grid if it is unknown, as in older records."""
        value = dataclasses.asdict(self)
        if self.grid is None:
            del value["grid"]
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> InputSpec:
        """Inverse of `to_json`.

        Raises:
            TypeError: A key is unknown to this version, or missing.
            ValueError: A value is not a size, or the size of the grid is not the number of cells.
        """
        spec = cls(**value)
        for name, size in vars(spec).items():
            if name != "grid" and not (type(size) is int and 0 <= size < 2**31):
                raise ValueError(f"{name} {size!r}")
        if spec.grid is None:
            return spec
        rows, columns = spec.grid
        if (
            type(rows) is not int
            or type(columns) is not int
            or rows < 1
            or rows * columns != spec.sequence_length
        ):
            raise ValueError(f"grid {rows!r} x {columns!r} of {spec.sequence_length} cells")
        return dataclasses.replace(spec, grid=(rows, columns))


def grid_of(rows: int, columns: int) -> tuple[int, int] | None:
    """Return the grid of a dataset; None for flat rows."""
    return (rows, columns) if rows > 1 else None


IDENTITY = ("data", "model", "optim", "loss", "initial", "total_steps")
"""Parts of `RunConfig` that change the mathematics. The seed does too, but the run's name contains it directly."""

ALTERNATIVES: tuple[Alternatives[Any], ...] = (DATA, ARCHITECTURES, OPTIMIZERS)
"""Parts of `RunConfig` with several forms."""

PLAIN_PARTS: dict[str, type[Any]] = {
    "loss": LossConfig,
    "initial": InitialConfig,
    "execution": ExecutionConfig,
}


def effective_identity(config: RunConfig) -> dict[str, Any]:
    """Return the identity fields that differ from their defaults, so that a new field does not change old identities.

    Keys are dotted paths, values are plain JSON. The tag of a part's form is included unless it is the default.
    """
    forms = {alternatives.key: alternatives for alternatives in ALTERNATIVES}
    identity: dict[str, Any] = {}
    for key in IDENTITY:
        part = getattr(config, key)
        if key in forms and getattr(part, forms[key].tag) != forms[key].default:
            identity[f"{key}.{forms[key].tag}"] = getattr(part, forms[key].tag)
        identity |= _changes(part, dataclasses.MISSING, key)
    return identity


def identity_hash(config: RunConfig) -> str:
    """Return the hexadecimal sha256 of the effective identity."""
    return hashlib.sha256(json.dumps(effective_identity(config), sort_keys=True).encode()).hexdigest()


def differences(config: RunConfig, base: RunConfig) -> dict[str, Any]:
    """Return the identity fields and seed that differ from another configuration, by dotted path."""
    mine, others = ({**effective_identity(each), "seed": each.seed} for each in (config, base))
    values = dict(leaves(config_to_json(config)))
    missing = object()
    return {key: values[key] for key in values if mine.get(key, missing) != others.get(key, missing)}


def leaves(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the innermost values with their dotted names."""
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from leaves(typing.cast("dict[str, Any]", inner), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", inner


def config_to_json(config: RunConfig) -> dict[str, Any]:
    """Return plain JSON values, which `config_from_json` reads."""
    return _plain(config)


def config_from_json(value: dict[str, Any]) -> RunConfig:
    """Inverse of `config_to_json`; missing fields and tags, as in records of older versions, take their defaults.

    Raises:
        ConfigError: A key, a form or a value is unknown to this version.
    """
    try:
        fields = dict(value)
        for key, part in PLAIN_PARTS.items():
            if key in fields:
                fields[key] = _part_from_json(part, fields[key])
        for alternatives in ALTERNATIVES:
            if alternatives.key in fields:
                stored = fields[alternatives.key]
                form = alternatives.form(stored.get(alternatives.tag, alternatives.default))
                fields[alternatives.key] = _part_from_json(form, stored)
        return RunConfig(**fields)
    except TypeError as error:
        raise ConfigError(f"not a run configuration that this version knows: {error}") from error


def check_config(config: RunConfig) -> None:
    """Check every part, and conditions between parts, without the dataset or the devices.

    Raises:
        ConfigError: A value is not allowed; the message has the key, the value and what is allowed.
    """
    for part in ("data", "model", "optim", "loss", "execution"):
        check_integers({f"{part}.{name}": value for name, value in vars(getattr(config, part)).items()})
    check_integers({"total_steps": config.total_steps})
    config.data.check()
    config.model.check()
    config.optim.check()
    config.loss.check()
    config.initial.check()
    config.execution.check()
    check_positive({"total_steps": config.total_steps})
    if config.optim.lr_warmup_steps >= config.total_steps:
        raise ConfigError(
            f"optim.lr_warmup_steps: below total_steps ({config.total_steps}), got {config.optim.lr_warmup_steps}; "
            "--optim.lr-warmup-steps N makes the warm-up shorter"
        )
    ends = [0, *(end for end, _ in config.model.stages(config.total_steps))]
    if sorted(set(ends)) != ends:
        raise ConfigError(
            f"model.curriculum: stages of a step at least, but with {config.total_steps} steps they end at {ends[1:]}"
        )
    cycles = isinstance(config.model, CyclesConfig) or not isinstance(config.model, BlocksConfig)
    if config.loss.cycle_consistency and not cycles:  # the training step checks networks of other packages
        raise ConfigError(
            f"loss.cycle_consistency: model.architecture {config.model.architecture} has no cycles (got "
            f"{config.loss.cycle_consistency:g}; expected 0). Leave the option out."
        )
    if config.data.is_mixture and config.execution.device_rows:
        raise ConfigError(
            f"execution.device_rows: devices hold the rows of one dataset (got {len(config.data.names)} of a mixture). "
            "Leave the option out."
        )
    if not 0 <= config.seed < 2**31:
        raise ConfigError(f"seed: got {config.seed}; expected 0 to 2^31 - 1")


def schedules_over_training(config: RunConfig) -> list[str]:
    """Return the settings that depend on the total number of steps, each as key and value, for display."""
    parts = {"data": config.data, "model": config.model, "optim": config.optim}
    values = {
        f"{key}.{item.name}": getattr(part, item.name)
        for key, part in parts.items()
        for item in dataclasses.fields(part)
    }
    found = [f"{key} {value}" for key, value in values.items() if isinstance(value, Spelled)]
    if config.model.halt_first_max_steps:
        found.append(f"model.halt_first_max_steps {config.model.halt_first_max_steps}")
    if config.optim.lr_decays:
        found.append(f"optim.lr_min_ratio {config.optim.lr_min_ratio:g} ({config.optim.lr_schedule})")
    return found


def check_extension(config: RunConfig, steps: int) -> None:
    """Check that a run can be extended to `steps` total steps and remain the same run.

    Raises:
        ConfigError: `steps` is not above `total_steps`, or a schedule depends on the total number of steps.
    """
    check_integers({"--extend": steps})
    if steps <= config.total_steps:
        raise ConfigError(f"--extend: got {steps}; expected more than total_steps ({config.total_steps})")
    schedules = schedules_over_training(config)
    if schedules:
        raise ConfigError(
            f"--extend: not with {', '.join(schedules)}, which ends at step {config.total_steps}: {steps} steps would "
            f"have had another one from the start; that is a run of its own (--total-steps {steps})"
        )


def planned_steps(config: RunConfig, extended_to: int | None) -> int:
    """Return the last step of a run: `total_steps`, or the extended number."""
    return config.total_steps if extended_to is None else extended_to


def _changes(value: Any, default: Any, path: str) -> dict[str, Any]:
    """Return the differences from the defaults as plain JSON, by dotted path; nested dataclasses field by field."""
    if value == default:
        return {}
    if not dataclasses.is_dataclass(value) or isinstance(value, Spelled):
        return {path: _plain(value)}
    same = type(default) is type(value)
    changes: dict[str, Any] = {}
    for name, usual in _defaults(type(value)).items():
        changes |= _changes(getattr(value, name), getattr(default, name) if same else usual, f"{path}.{name}")
    return changes


@functools.cache
def _defaults(part: type[Any]) -> dict[str, Any]:
    """Return the default of each field of a part."""
    return {item.name: default_of(item) for item in dataclasses.fields(part)}


def _plain(value: Any) -> Any:
    """Convert to plain JSON values; schedules become their notation."""
    if isinstance(value, Spelled):
        return str(value)
    if dataclasses.is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in _defaults(type(value))}
    return list(value) if isinstance(value, tuple) else value


REMOVED = {ExecutionConfig: ("min_examples_per_s",)}
"""Execution options that records of earlier versions have."""


def _part_from_json(part: type[Any], value: dict[str, Any]) -> Any:
    """Make a part from its plain values; schedule notations are parsed, and lists become tuples."""
    read = _readers(part)
    removed = REMOVED.get(part, ())
    return part(
        **{
            name: read.get(name, lambda same: same)(item)
            for name, item in value.items()
            if name not in removed
        }
    )


@functools.cache
def _readers(part: type[Any]) -> dict[str, Callable[[Any], Any]]:
    """Return converters for the fields whose values differ from JSON values. Cached: many runs share few parts."""

    def spelled(item: Any, parse: Callable[[str], Any]) -> Any:
        return parse(item) if isinstance(item, str) else item

    kinds = typing.get_type_hints(part)
    return {
        name: functools.partial(spelled, parse=PARSERS[kind][0]) if kind in PARSERS else tuple
        for name, kind in kinds.items()
        if kind in PARSERS or typing.get_origin(kind) is tuple
    }
