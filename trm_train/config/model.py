"""Network configuration: common options and those of each architecture. Source: TRM paper and its published code."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, get_args

from typing_extensions import override
from tyro.conf import FlagConversionOff, arg

from trm_data.errors import one_of
from trm_train.config.values import (
    Alternatives,
    Curriculum,
    Scheduled,
    check_not_negative,
    check_positive,
    check_shares,
)
from trm_train.errors import ConfigError
from trm_train.extensions import check_known

MIXERS = ("mlp_t", "attention", "window")
"""Mixers of this package; another package adds its own by the entry point `trm_train.mixers`."""
PosEncodings = Literal["none", "rope", "learned"]
Gradient = Literal["last_cycle", "one_step"]
Dtype = Literal["bfloat16", "float16", "float32"]

INNER_MULTIPLE = 256


def inner_width(width: int, expansion: float) -> int:
    """Inner width of a SwiGLU: two thirds of `expansion * width`, rounded up to a multiple of 256."""
    return -(-round(expansion * width * 2 / 3) // INNER_MULTIPLE) * INNER_MULTIPLE


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Options of every architecture: width, halting and puzzle embedding."""

    architecture: ClassVar[str]
    """Tag of the variant; each variant declares it as a field with one value."""

    hidden_size: int = 512
    """Width D of the latent states."""
    halt_max_steps: int = 16
    """Maximum supervision steps of an example in training; the number in evaluation."""
    halt_first_max_steps: int = 0
    """Maximum supervision steps at the start of training; rises linearly to `halt_max_steps` (0: `halt_max_steps`
    throughout)."""
    halt_exploration_prob: Scheduled = 0.1
    """Probability that a slot may not halt early; linear(START, END) changes it over training."""
    puzzle_emb_ndim: Annotated[int | None, arg(metavar="INT|None")] = None
    """Width of a puzzle-embedding row; None follows `hidden_size`, 0 removes the puzzle positions."""
    puzzle_emb_len: int = 16
    """Puzzle positions P in front of the cells; 0 means ceil(puzzle_emb_ndim / hidden_size)."""
    forward_dtype: Dtype = "bfloat16"
    """Compute dtype; parameters are float32. With float16 the loss is scaled, and a step with an overflowing gradient
    is skipped."""

    @property
    def calls_per_step(self) -> int:
        """Number of passes through a stack of layers in one supervision step."""
        return 1

    @property
    def puzzle_width(self) -> int:
        """Width N of a puzzle-embedding row (0: no puzzle positions)."""
        return self.hidden_size if self.puzzle_emb_ndim is None else self.puzzle_emb_ndim

    @property
    def puzzle_positions(self) -> int:
        """Number P of positions that the puzzle embedding takes in front of the cells."""
        if self.puzzle_width == 0:
            return 0
        return self.puzzle_emb_len or math.ceil(self.puzzle_width / self.hidden_size)

    def stages(self, total_steps: int) -> list[tuple[int, NetworkConfig]]:
        """Return the training stages: last step and configuration of each; all have the same parameter shapes."""
        return [(total_steps, self)]

    def check(self) -> None:
        """Check the options of every architecture.

        Raises:
            ConfigError: A value is not allowed; the message has the key, the value and what is allowed.
        """
        if self.forward_dtype not in get_args(Dtype):
            raise ConfigError(one_of("model.forward_dtype", get_args(Dtype), self.forward_dtype))
        check_positive(
            {"model.hidden_size": self.hidden_size, "model.halt_max_steps": self.halt_max_steps},
        )
        if not 0 <= self.halt_first_max_steps <= self.halt_max_steps:
            raise ConfigError(
                f"model.halt_first_max_steps: 0 (as halt_max_steps), or 1 to halt_max_steps {self.halt_max_steps}, "
                f"got {self.halt_first_max_steps}"
            )
        check_not_negative(
            {
                "model.puzzle_emb_len": self.puzzle_emb_len,
                "model.puzzle_emb_ndim": self.puzzle_emb_ndim or 0,
            }
        )
        check_shares({"model.halt_exploration_prob": self.halt_exploration_prob})
        room = self.puzzle_positions * self.hidden_size
        if self.puzzle_width > room:
            raise ConfigError(
                f"model.puzzle_emb_ndim: at most puzzle_emb_len * hidden_size = {room}, got {self.puzzle_width}"
            )


LARGEST_LAYERS = 1_024
"""Maximum number of layers. Each layer is traced separately, so a larger number would take hours to compile."""


@dataclass(frozen=True, kw_only=True)
class BlocksConfig(NetworkConfig):
    """Options of every architecture of transformer-like blocks."""

    num_heads: int = 8
    """Attention heads."""
    expansion: float = 4.0
    """SwiGLU expansion; the inner width is rounded up to a multiple of 256."""
    num_layers: int = 2
    """Blocks of each network."""
    mixer: Annotated[str, arg(metavar="mlp_t|attention|window|NAME")] = "mlp_t"
    """Mixing of positions: `mlp_t` (SwiGLU over the token axis), bidirectional `attention`, `window` (attention to
    near cells), or a mixer of another package."""
    window: int = 0
    """With mixer `window`, a cell attends to the cells at most this many rows and columns away (cells)."""
    pos_encodings: PosEncodings = "none"
    """Positions of the cells; mlp_t needs none."""

    @property
    def two_networks(self) -> bool:
        """Whether z_H has a separate network."""
        return False

    @override
    def check(self) -> None:
        """Check the values that blocks depend on."""
        check_positive({"model.num_layers": self.num_layers, "model.num_heads": self.num_heads})
        check_not_negative({"model.expansion": self.expansion})
        if self.num_layers > LARGEST_LAYERS:
            raise ConfigError(f"model.num_layers: at most {LARGEST_LAYERS:,}, got {self.num_layers:,}")
        if self.pos_encodings not in get_args(PosEncodings):
            raise ConfigError(one_of("model.pos_encodings", get_args(PosEncodings), self.pos_encodings))
        check_known("mixers", self.mixer, MIXERS, "model.mixer")
        if (self.mixer == "window") != (self.window > 0) or self.window < 0:
            allowed = "at least 1 with" if self.mixer == "window" else "0 without"
            raise ConfigError(f"model.window: {allowed} --model.mixer window, got {self.window}")
        super().check()
        if self.mixer in ("attention", "window"):
            self._check_attention()

    def _check_attention(self) -> None:
        if self.hidden_size % self.num_heads:
            raise ConfigError(
                f"model.num_heads: a divisor of hidden_size {self.hidden_size}, got {self.num_heads}"
            )
        self._check_rope()

    def _check_rope(self) -> None:
        if self.pos_encodings == "rope" and (self.hidden_size // self.num_heads) % 2:
            raise ConfigError(
                "model.pos_encodings: rope needs an even width per head (hidden_size / num_heads)"
            )


@dataclass(frozen=True, kw_only=True)
class CyclesConfig(BlocksConfig):
    """Options of every architecture that applies the same blocks several times."""

    h_cycles: int = 3
    """Updates of z_H in one supervision step (T in the paper); only the last carries gradient."""
    l_cycles: int = 6
    """Updates of z_L for each update of z_H (n in the paper)."""
    curriculum: Curriculum | None = None
    """Fewer cycles at first: stages HxL (h_cycles x l_cycles) over the first SHARE of training. The last stage, and
    evaluation, use the model's own."""

    @property
    @override
    def calls_per_step(self) -> int:
        return self.h_cycles * (self.l_cycles + 1)

    @override
    def stages(self, total_steps: int) -> list[tuple[int, NetworkConfig]]:
        if self.curriculum is None:
            return [(total_steps, self)]
        ends = [*self.curriculum.ends(total_steps), total_steps]
        return [
            (end, dataclasses.replace(self, h_cycles=h_cycles, l_cycles=l_cycles, curriculum=None))
            for end, (h_cycles, l_cycles) in zip(ends, self.curriculum.cycles, strict=True)
        ]

    @override
    def check(self) -> None:
        """Check the cycles and their curriculum."""
        check_positive({"model.h_cycles": self.h_cycles, "model.l_cycles": self.l_cycles})
        super().check()
        if self.curriculum is not None and self.curriculum.cycles[-1] != (self.h_cycles, self.l_cycles):
            raise ConfigError(
                f"model.curriculum: ends at the model's own {self.h_cycles}x{self.l_cycles}, got {self.curriculum}"
            )


@dataclass(frozen=True, kw_only=True)
class ModelConfig(CyclesConfig):
    """The Tiny Recursive Model and its variants: z_H (answer) and z_L (latent)."""

    architecture: Literal["trm"] = "trm"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Architecture of the network: trm, single_z, hrm, transformer, or one of another package; the other options of
    the model depend on it."""
    no_act_continue: FlagConversionOff[bool] = True
    """True: halt when q_halt > 0. False: when q_halt > q_continue, which then has a loss (one forward pass more)."""
    networks: int = 1
    """Networks: 1 updates both states, 2 gives z_H a network of its own."""
    gradient: Gradient = "last_cycle"
    """Updates with gradient: those of the last of the `h_cycles`, or (`one_step`) the last of z_L and of z_H alone."""
    multi_scale: bool = False
    """One z_L for each of the `l_cycles`; every update reads the sum of all."""

    @property
    @override
    def two_networks(self) -> bool:
        return self.networks == 2

    @override
    def check(self) -> None:
        """Check the variants of the recursion."""
        super().check()
        if self.networks not in (1, 2):
            raise ConfigError(f"model.networks: got {self.networks}; expected 1 or 2")
        if self.gradient not in get_args(Gradient):
            raise ConfigError(one_of("model.gradient", get_args(Gradient), self.gradient))
        if self.multi_scale and self.curriculum is not None:
            raise ConfigError(
                "model.curriculum: not with model.multi_scale, whose number of states follows l_cycles; "
                "leave one of them out"
            )


@dataclass(frozen=True, kw_only=True)
class SingleZConfig(CyclesConfig):
    """One state z: `h_cycles` times { `l_cycles` times z = f(z + input); then z = f(z) }."""

    architecture: Literal["single_z"] = "single_z"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Architecture of the network: trm, single_z, hrm, transformer, or one of another package; the other options of
    the model depend on it."""


@dataclass(frozen=True, kw_only=True)
class HRMConfig(CyclesConfig):
    """The Hierarchical Reasoning Model (arXiv 2506.21734): two networks, one-step gradient, the continue loss."""

    architecture: Literal["hrm"] = "hrm"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Architecture of the network: trm, single_z, hrm, transformer, or one of another package; the other options of
    the model depend on it."""
    num_layers: int = 4
    """Blocks of each of the two networks."""
    mixer: Annotated[str, arg(metavar="mlp_t|attention|window|NAME")] = "attention"
    pos_encodings: PosEncodings = "rope"
    h_cycles: int = 2
    """Updates of z_H in one supervision step; only the last update of each state carries gradient."""
    l_cycles: int = 2
    puzzle_emb_len: int = 0
    """Puzzle positions P in front of the cells; 0 means ceil(puzzle_emb_ndim / hidden_size)."""

    @property
    @override
    def two_networks(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(BlocksConfig):
    """A plain transformer with the same carry and halting: z_H = f(z_H + input) once per supervision step."""

    architecture: Literal["transformer"] = "transformer"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Architecture of the network: trm, single_z, hrm, transformer, or one of another package; the other options of
    the model depend on it."""
    num_heads: int = 12
    """Heads; their width is hidden_size // num_heads, rounded down (12 heads of 512: 504 wide in all)."""
    num_layers: int = 8
    mixer: Annotated[str, arg(metavar="mlp_t|attention|window|NAME")] = "attention"
    pos_encodings: PosEncodings = "rope"
    puzzle_emb_len: int = 0
    """Puzzle positions P in front of the cells; 0 means ceil(puzzle_emb_ndim / hidden_size)."""

    @override
    def _check_attention(self) -> None:
        if self.hidden_size < self.num_heads:
            raise ConfigError(
                f"model.num_heads: at most hidden_size {self.hidden_size}, got {self.num_heads}"
            )
        self._check_rope()


ARCHITECTURES: Alternatives[NetworkConfig] = Alternatives(
    "model",
    "architecture",
    {"trm": ModelConfig, "single_z": SingleZConfig, "hrm": HRMConfig, "transformer": TransformerConfig},
    extensions="networks",
)
"""Every architecture of this package; `model/networks.py` has the network of each."""
