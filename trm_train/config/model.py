"""The network: what every architecture has, and the options of each. Source: the TRM paper and its published code."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, get_args

from tyro.conf import FlagConversionOff, arg

from trm_data.closest import one_of
from trm_train.config.alternatives import Alternatives
from trm_train.config.bounds import check_not_negative, check_positive, check_shares
from trm_train.config.scheduled import Curriculum, Scheduled
from trm_train.errors import ConfigError

Mixer = Literal["mlp_t", "attention"]
PosEncodings = Literal["none", "rope", "learned"]
Dtype = Literal["bfloat16", "float16", "float32"]

INNER_MULTIPLE = 256


def inner_width(width: int, expansion: float) -> int:
    """Inner width of a SwiGLU: two thirds of `expansion * width`, rounded up to a multiple of 256."""
    return -(-round(expansion * width * 2 / 3) // INNER_MULTIPLE) * INNER_MULTIPLE


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """What every architecture has: a width, halting, and the puzzle embedding."""

    architecture: ClassVar[str]
    """A form declares it as a field with one value."""

    hidden_size: int = 512
    """Width D."""
    halt_max_steps: int = 16
    """Supervision steps at most per example in training, and always in evaluation."""
    halt_first_max_steps: int = 0
    """Supervision steps at most at the first step of training, from where they rise evenly to `halt_max_steps` at the
    last; 0: `halt_max_steps` throughout."""
    halt_exploration_prob: Scheduled = 0.1
    """Probability that a slot may not halt early; linear(START, END) changes it over training."""
    puzzle_emb_ndim: Annotated[int | None, arg(metavar="INT|None")] = None
    """Width of a puzzle-embedding row; None follows `hidden_size`, 0 removes the puzzle positions."""
    puzzle_emb_len: int = 16
    """Puzzle positions P in front of the cells; 0 means ceil(puzzle_emb_ndim / hidden_size)."""
    forward_dtype: Dtype = "bfloat16"
    """Compute dtype; parameters are always float32. With float16 the loss is scaled, and a step whose
    gradient overflows changes nothing."""

    @property
    def puzzle_width(self) -> int:
        """N: width of a puzzle-embedding row."""
        return self.hidden_size if self.puzzle_emb_ndim is None else self.puzzle_emb_ndim

    @property
    def puzzle_positions(self) -> int:
        """P: positions that the puzzle embedding takes in front of the cells."""
        if self.puzzle_width == 0:
            return 0
        return self.puzzle_emb_len or math.ceil(self.puzzle_width / self.hidden_size)

    def stages(self, total_steps: int) -> list[tuple[int, NetworkConfig]]:
        """The network as it is trained: the last step of each stage, and what it is in that stage; all of one shape."""
        return [(total_steps, self)]

    def check(self) -> None:
        """Refuse what no architecture can be.

        Raises:
            ConfigError: Names the key, what it got and what is allowed.
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
"""Most layers of a network: each is traced by itself, so more would compile for hours."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig(NetworkConfig):
    """The Tiny Recursive Model and its recursion."""

    architecture: Literal["trm"] = "trm"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Architecture of the network; the other options of the model are its own."""
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
    curriculum: Curriculum | None = None
    """Fewer cycles at first: stages HxL (h_cycles, l_cycles) over the first SHARE of training, the last as the model
    has them. Evaluation always uses those of the model."""
    no_act_continue: FlagConversionOff[bool] = True
    """True: halt when q_halt > 0. False: when q_halt > q_continue, which then has a loss (one forward pass more)."""

    def stages(self, total_steps: int) -> list[tuple[int, NetworkConfig]]:
        """A stage for each entry of the curriculum."""
        if self.curriculum is None:
            return [(total_steps, self)]
        ends = [*self.curriculum.ends(total_steps), total_steps]
        return [
            (end, dataclasses.replace(self, h_cycles=h_cycles, l_cycles=l_cycles, curriculum=None))
            for end, (h_cycles, l_cycles) in zip(ends, self.curriculum.cycles, strict=True)
        ]

    def check(self) -> None:
        """Refuse what this network cannot be.

        Raises:
            ConfigError: Names the key, what it got and what is allowed.
        """
        check_positive(
            {
                "model.num_layers": self.num_layers,
                "model.num_heads": self.num_heads,
                "model.h_cycles": self.h_cycles,
                "model.l_cycles": self.l_cycles,
            }
        )
        check_not_negative({"model.expansion": self.expansion})
        if self.num_layers > LARGEST_LAYERS:
            raise ConfigError(f"model.num_layers: at most {LARGEST_LAYERS:,}, got {self.num_layers:,}")
        if self.pos_encodings not in get_args(PosEncodings):
            raise ConfigError(one_of("model.pos_encodings", get_args(PosEncodings), self.pos_encodings))
        super().check()
        if self.mixer == "attention":
            self._check_attention()
        if self.curriculum is not None and self.curriculum.cycles[-1] != (self.h_cycles, self.l_cycles):
            raise ConfigError(
                f"model.curriculum: ends at the model's own {self.h_cycles}x{self.l_cycles}, got {self.curriculum}"
            )

    def _check_attention(self) -> None:
        if self.hidden_size % self.num_heads:
            raise ConfigError(
                f"model.num_heads: a divisor of hidden_size {self.hidden_size}, got {self.num_heads}"
            )
        if self.pos_encodings == "rope" and (self.hidden_size // self.num_heads) % 2:
            raise ConfigError(
                "model.pos_encodings: rope needs an even width per head (hidden_size / num_heads)"
            )


ARCHITECTURES: Alternatives[NetworkConfig] = Alternatives("model", "architecture", {"trm": ModelConfig})
"""Every architecture; `model/networks.py` has the network of each."""
