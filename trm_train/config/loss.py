"""Options of the training loss: cross-entropy of the cells, added terms and weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from trm_data.closest import one_of
from trm_train.config.bounds import check_not_negative, check_shares
from trm_train.errors import ConfigError

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
