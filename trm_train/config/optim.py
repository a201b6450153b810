"""Configuration of optimizer and training loss. Source: TRM paper and its published code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from typing_extensions import override

from trm_data.errors import one_of
from trm_train.config.values import (
    Alternatives,
    Function,
    LrSchedule,
    Piecewise,
    check_decays,
    check_not_negative,
    check_positive,
    check_shares,
    lr_function,
)
from trm_train.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """Options of every optimizer: learning rates, their schedule, the puzzle embedding and the EMA."""

    name: ClassVar[str]
    """Tag of the variant; each variant declares it as a field with one value."""

    lr: float = 1e-4
    """Learning rate of the network."""
    lr_warmup_steps: int = 2_000
    """Steps of linear warm-up of the learning rates."""
    lr_schedule: LrSchedule = "cosine"
    """Learning rate after the warm-up: decay, constant with a decay at the end, points or a function."""
    lr_min_ratio: float = 1.0
    """A decay ends at `lr_min_ratio * lr`; 1.0 keeps the rate constant after the warm-up."""
    puzzle_emb_lr: float = 1e-4
    """Learning rate of the puzzle embedding (sign-SGD)."""
    puzzle_emb_weight_decay: float = 1.0
    """Weight decay of the puzzle embedding."""
    ema_rate: float = 0.999
    """Rate of the exponential moving average of the trained parameters; 0 copies them (no averaging)."""
    freeze_weights: bool = False
    """Train the puzzle embedding only."""
    clip_norm: float = 0.0
    """Clip the global gradient norm of the network (0: off)."""

    @property
    def lr_decays(self) -> bool:
        """Whether the learning rate after the warm-up depends on the total number of steps."""
        return self.lr_min_ratio != 1.0 or isinstance(self.lr_schedule, Piecewise | Function)

    def make(self, rate: Callable[[Any], Any]) -> Any:
        """Return the optax transformation. For optimizers of other packages; `optim.make_optimizer` makes our own.

        Args:
            rate: Function from the step, counted from 0, to the learning rate.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method make(rate)")

    def check(self) -> None:
        """Check the options of every optimizer.

        Raises:
            ConfigError: A value is not allowed; the message has the key, the value and what is allowed.
        """
        check_not_negative(
            {
                "optim.lr": self.lr,
                "optim.puzzle_emb_lr": self.puzzle_emb_lr,
                "optim.puzzle_emb_weight_decay": self.puzzle_emb_weight_decay,
                "optim.lr_warmup_steps": self.lr_warmup_steps,
                "optim.clip_norm": self.clip_norm,
            }
        )
        check_shares({"optim.lr_min_ratio": self.lr_min_ratio, "optim.ema_rate": self.ema_rate})
        if isinstance(self.lr_schedule, Function):
            lr_function(self.lr_schedule)
        elif self.lr_schedule != "cosine" and not self.lr_decays:
            raise ConfigError(
                f"optim.lr_schedule: {self.lr_schedule} decays to lr_min_ratio * lr, and lr_min_ratio 1 is a constant "
                "rate; set optim.lr_min_ratio below 1"
            )


@dataclass(frozen=True, kw_only=True)
class MomentsConfig(OptimizerConfig):
    """Options of optimizers with one or two moments of the gradient."""

    beta1: float = 0.9
    """Decay of the first moment; of lion, its weight in the direction of a step."""
    beta2: float = 0.95
    """Decay of the second moment; of lion, of its only one."""
    weight_decay: float = 1.0
    """Weight decay of the network."""

    @override
    def check(self) -> None:
        """Check the moments and the decay."""
        super().check()
        check_not_negative({"optim.weight_decay": self.weight_decay})
        check_decays({"optim.beta1": self.beta1, "optim.beta2": self.beta2})


@dataclass(frozen=True, kw_only=True)
class OptimConfig(MomentsConfig):
    """AdamATan2 for the network, sign-SGD for the puzzle embedding: the published recipe."""

    name: Literal["adam_atan2"] = "adam_atan2"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Optimizer of the network: adam_atan2, adamw, lion or muon; some options are its own."""


@dataclass(frozen=True, kw_only=True)
class AdamWConfig(MomentsConfig):
    """AdamW for the network, sign-SGD for the puzzle embedding; decay acts on every parameter, as in AdamATan2."""

    name: Literal["adamw"] = "adamw"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Optimizer of the network: adam_atan2, adamw, lion or muon; some options are its own."""
    epsilon: float = 1e-8
    """Added to the root of the second moment."""

    @override
    def check(self) -> None:
        """Check the options of AdamW."""
        super().check()
        check_not_negative({"optim.epsilon": self.epsilon})


@dataclass(frozen=True, kw_only=True)
class LionConfig(MomentsConfig):
    """Lion for the network, sign-SGD for the puzzle embedding. Source: arXiv 2302.06675."""

    name: Literal["lion"] = "lion"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Optimizer of the network: adam_atan2, adamw, lion or muon; some options are its own."""
    beta2: float = 0.99
    """Decay of the moment."""


@dataclass(frozen=True, kw_only=True)
class MuonConfig(MomentsConfig):
    """Muon for hidden matrices, NAdamW for the other parameters, sign-SGD for the puzzle embedding.

    An orthogonalised step is scaled to the size of an Adam step (0.2 times the root of the longer side). So the rates
    of AdamW and AdamATan2 are suitable first values. Source: Keller Jordan's Muon; arXiv 2502.16982 for the scale.
    """

    name: Literal["muon"] = "muon"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Optimizer of the network: adam_atan2, adamw, lion or muon; some options are its own."""
    momentum: float = 0.95
    """Momentum of matrices, with Nesterov's look-ahead."""
    matrices: Literal["hidden", "all"] = "all"
    """Matrices that Muon trains: hidden ones, as is advised, or also embeddings and heads (records without it)."""
    FOR_NEW: ClassVar[Mapping[str, Any]] = {"matrices": "hidden"}
    ns_steps: int = 5
    """Newton-Schulz iterations that orthogonalise a step."""

    @override
    def check(self) -> None:
        """Check the options of Muon."""
        super().check()
        check_positive({"optim.ns_steps": self.ns_steps})
        check_decays({"optim.momentum": self.momentum})


OPTIMIZERS: Alternatives[OptimizerConfig] = Alternatives(
    "optim",
    "name",
    {"adam_atan2": OptimConfig, "adamw": AdamWConfig, "lion": LionConfig, "muon": MuonConfig},
    extensions="optimizers",
)
"""Every optimizer of this package; `optim.make_optimizer` makes each."""


CellLoss = Literal["stablemax", "softmax"]


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """Loss of a slot; the defaults are those of the published recipe."""

    cells: CellLoss = "stablemax"
    """Probabilities of a cell's symbols: log-stablemax (published) or log-softmax."""
    cycle_consistency: float = 0.0
    """Weight of the mean squared change of z_H over the last cycle, added to the loss (default: 0, off)."""
    supervision_decay: float = 1.0
    """Supervision step k of an example is weighted by the (k - 1)-th power of this (default: 1, all alike)."""

    def check(self) -> None:
        """Check names and ranges.

        Raises:
            ConfigError: A value is not allowed; the message has the key, the value and what is allowed.
        """
        if self.cells not in get_args(CellLoss):
            raise ConfigError(one_of("loss.cells", get_args(CellLoss), self.cells))
        check_not_negative({"loss.cycle_consistency": self.cycle_consistency})
        check_shares({"loss.supervision_decay": self.supervision_decay})
