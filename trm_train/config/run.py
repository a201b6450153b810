"""The configuration of a run: frozen dataclasses. Imports no jax, so that listing experiments stays fast.

`RunConfig` has two kinds of parts. Identity (`data`, `model`, `optim`, `loss`, `initial`, `total_steps`, `seed`)
changes the mathematics; the run's name holds a hash of it, and the seed itself. Execution (`execution`) says how
and where it runs and may differ from start to start of the same run. Parts lie in files of their own, each with its
`check`; `data`, `model` and `optim` come in several forms (`alternatives.py`).

Keys keep the words of the published configuration in snake case (docs/concepts.md lists them).
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
from typing import Annotated, Any, Literal, get_args

from tyro.conf import Fixed, Suppress

from trm_data.closest import one_of
from trm_train.config.alternatives import Alternatives, default_of
from trm_train.config.bounds import check_not_negative, check_positive, check_shares
from trm_train.config.data import DATA, RowsConfig
from trm_train.config.execution import ExecutionConfig
from trm_train.config.model import ARCHITECTURES, BlocksConfig, CyclesConfig, ModelConfig, NetworkConfig
from trm_train.config.optim import OPTIMIZERS, OptimConfig, OptimizerConfig
from trm_train.config.scheduled import PARSERS, Spelled
from trm_train.errors import ConfigError

CellLoss = Literal["stablemax", "softmax"]


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """The loss of a slot; the defaults are those of the published recipe."""

    cells: CellLoss = "stablemax"
    """Probabilities of a cell's symbols: log-stablemax (published) or log-softmax."""
    cycle_consistency: float = 0.0
    """Weight of the mean squared change of z_H over the last cycle, added to the loss (default: 0, off)."""
    supervision_decay: float = 1.0
    """Supervision step k of an example is weighted by the (k - 1)-th power of this (default: 1, all alike)."""

    def check(self) -> None:
        """Check names and ranges.

        Raises:
            ConfigError: Names the key, what it got and what is allowed.
        """
        if self.cells not in get_args(CellLoss):
            raise ConfigError(one_of("loss.cells", get_args(CellLoss), self.cells))
        check_not_negative({"loss.cycle_consistency": self.cycle_consistency})
        check_shares({"loss.supervision_decay": self.supervision_decay})


DIGEST = re.compile(r"([0-9a-f]{64})?")


@dataclass(frozen=True, kw_only=True)
class InitialConfig:
    """Weights that were there before the run; no option of the command line sets these."""

    weights: str = ""
    """Digest of the weights that training starts from (--init-from); empty: drawn from the seed."""
    imported: str = ""
    """sha256 of the file that an imported run holds (import-weights); it is never trained."""
    identifiers: str = ""
    """sha256 of the names of that file's embedding rows (--identifiers), where they were needed."""

    def check(self) -> None:
        """Check that every value is a digest.

        Raises:
            ConfigError: Names the key and what it got.
        """
        for name, value in asdict(self).items():
            if not DIGEST.fullmatch(value):
                raise ConfigError(
                    f"initial.{name}: got {value[:80]!r}; expected 64 hexadecimal digits or nothing"
                )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Everything one training run needs."""

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
    """What the model must know of its dataset: shapes and sizes that are not configuration."""

    sequence_length: int
    """Cells S of a row."""
    vocabulary_size: int
    num_identifiers: int
    """Rows of the puzzle-embedding table that carry meaning, identifier 0 included."""
    ignore_label: int = 0
    """Cells with this label add nothing to loss or metrics (PAD)."""
    grid: tuple[int, int] | None = None
    """Rows and columns of the grid that a row of cells is; None where it is not one, or where rows are of several."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; without a grid if it is unknown, as in older records."""
        value = dataclasses.asdict(self)
        if self.grid is None:
            del value["grid"]
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> InputSpec:
        """Inverse of `to_json`.

        Raises:
            TypeError: A key is unknown to this version, or missing.
            ValueError: A grid that is not of the cells.
        """
        spec = cls(**value)
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
    """The grid of a dataset, of which flat rows are none."""
    return (rows, columns) if rows > 1 else None


IDENTITY = ("data", "model", "optim", "loss", "initial", "total_steps")
"""Parts of `RunConfig` that change the mathematics; the seed does too, and stands in the run's name itself."""

ALTERNATIVES: tuple[Alternatives[Any], ...] = (DATA, ARCHITECTURES, OPTIMIZERS)
"""Parts of `RunConfig` that come in several forms."""

PLAIN_PARTS: dict[str, type[Any]] = {
    "loss": LossConfig,
    "initial": InitialConfig,
    "execution": ExecutionConfig,
}


def effective_identity(config: RunConfig) -> dict[str, Any]:
    """The identity fields that differ from their defaults, so that a new field orphans no old run.

    Keys are dotted paths, values are plain JSON. The tag of a part's form is among them unless it is the default.
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
    """sha256 over the effective identity, hexadecimal."""
    return hashlib.sha256(json.dumps(effective_identity(config), sort_keys=True).encode()).hexdigest()


def differences(config: RunConfig, base: RunConfig) -> dict[str, Any]:
    """What of the mathematics of a configuration is not as in another one, by dotted path; the seed is among it."""
    mine, others = ({**effective_identity(each), "seed": each.seed} for each in (config, base))
    values = dict(_leaves(config_to_json(config)))
    missing = object()
    return {key: values[key] for key in values if mine.get(key, missing) != others.get(key, missing)}


def _leaves(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _leaves(typing.cast("dict[str, Any]", inner), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", inner


def config_to_json(config: RunConfig) -> dict[str, Any]:
    """Plain JSON values, read back by `config_from_json`."""
    return _plain(config)


def config_from_json(value: dict[str, Any]) -> RunConfig:
    """Inverse of `config_to_json`; fields that a newer version added take their defaults, and so do tags.

    Raises:
        ConfigError: A key, a form or a value that this version does not know.
    """
    try:
        fields = dict(value)
        for key, part in PLAIN_PARTS.items():
            if key in fields:
                fields[key] = _part_from_json(part, fields[key])
        for alternatives in ALTERNATIVES:
            if alternatives.key in fields:
                stored = fields[alternatives.key]
                fields[alternatives.key] = _part_from_json(alternatives.of_json(stored), stored)
        return RunConfig(**fields)
    except TypeError as error:
        raise ConfigError(f"not a run configuration that this version knows: {error}") from error


def check_config(config: RunConfig) -> None:
    """Refuse what can be refused without the dataset or the devices: every part, and what parts have to do.

    Raises:
        ConfigError: Names the key, what it got and what is allowed.
    """
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
    if config.loss.cycle_consistency and not cycles:  # of another package's network the training step says it
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
    """What of a run depends on how many steps it has in all, for people: key and value."""
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
    """Refuse to extend a run to `steps` steps in all where that is no continuation of the same run.

    Raises:
        ConfigError: It is not beyond `total_steps`, or something changes over the training that would be longer.
    """
    if steps <= config.total_steps:
        raise ConfigError(f"--extend: got {steps}; expected more than total_steps ({config.total_steps})")
    schedules = schedules_over_training(config)
    if schedules:
        raise ConfigError(
            f"--extend: not with {', '.join(schedules)}, which ends at step {config.total_steps}: {steps} steps would "
            f"have had another one from the start; that is a run of its own (--total-steps {steps})"
        )


def planned_steps(config: RunConfig, extended_to: int | None) -> int:
    """The step a run ends at: `total_steps`, or what it was extended to."""
    return config.total_steps if extended_to is None else extended_to


def _changes(value: Any, default: Any, path: str) -> dict[str, Any]:
    """What differs from the defaults, by dotted path, in plain JSON; nested dataclasses field by field."""
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
    """The default of each field of a part."""
    return {item.name: default_of(item) for item in dataclasses.fields(part)}


def _plain(value: Any) -> Any:
    """As JSON values; what changes over training by its spelling."""
    if isinstance(value, Spelled):
        return str(value)
    if dataclasses.is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in _defaults(type(value))}
    return list(value) if isinstance(value, tuple) else value


def _part_from_json(part: type[Any], value: dict[str, Any]) -> Any:
    """A part from its plain values; spelled values are parsed where the field may hold one, lists become tuples."""
    read = _readers(part)
    return part(**{name: read[name](item) if name in read else item for name, item in value.items()})


@functools.cache
def _readers(part: type[Any]) -> dict[str, Callable[[Any], Any]]:
    """The fields of a part whose values differ from their JSON values; a study has many runs of few parts."""

    def spelled(item: Any, parse: Callable[[str], Any]) -> Any:
        return parse(item) if isinstance(item, str) else item

    kinds = typing.get_type_hints(part)
    return {
        name: functools.partial(spelled, parse=PARSERS[kind][0]) if kind in PARSERS else tuple
        for name, kind in kinds.items()
        if kind in PARSERS or typing.get_origin(kind) is tuple
    }
