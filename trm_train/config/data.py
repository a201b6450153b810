"""Which rows a run learns from."""

from __future__ import annotations

from dataclasses import dataclass

from trm_data.errors import SpecError
from trm_data.specs import check_name
from trm_train.config.bounds import check_positive
from trm_train.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The training data."""

    dataset: str
    """Name of a built dataset under the root (`trm-data list`)."""
    global_batch_size: int = 768
    """Slots of the whole mesh, over all hosts."""

    def check(self) -> None:
        """Refuse what is no name of one dataset, and a batch without slots.

        Raises:
            ConfigError: Names the key, what it got and what is allowed.
        """
        check_positive({"data.global_batch_size": self.global_batch_size})
        if "," in self.dataset or "+" in self.dataset:
            raise ConfigError(
                f"data.dataset: the name of one dataset, got {self.dataset!r}; training on a mixture is not available"
            )
        try:
            check_name(self.dataset)
        except SpecError as error:
            raise ConfigError(f"data.dataset: {error}") from error
