"""The training data of a run: one dataset, or a mixture of several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from typing_extensions import override

from trm_data.errors import SpecError
from trm_data.loader.component import SharedPuzzles
from trm_data.specs import check_name
from trm_train.config.values import Alternatives, check_positive
from trm_train.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class RowsConfig:
    """Options of every source of rows."""

    form: ClassVar[str]
    """Tag of the variant; each variant declares it as a field with one value."""

    global_batch_size: int = 768
    """Slots of the whole mesh, over all hosts."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all datasets of the rows."""
        raise NotImplementedError

    @property
    def is_mixture(self) -> bool:
        """Whether there are several datasets."""
        return len(self.names) > 1

    @property
    def label(self) -> str:
        """Names of all datasets in one word, for display and for a table column."""
        return "+".join(self.names)

    def only_dataset(self, what: str = "this") -> str:
        """Return the only dataset, for code that supports one dataset only.

        Args:
            what: Option or command that needs it, for the error message.

        Raises:
            ConfigError: There are several datasets.
        """
        if len(self.names) != 1:
            raise ConfigError(
                f"{what}: not available for a mixture (got {', '.join(self.names)}; expected one dataset). "
                "Name one: --data.form dataset --data.dataset NAME"
            )
        return self.names[0]

    def check(self) -> None:
        """Check the batch size.

        Raises:
            ConfigError: A value is not allowed; the message has the key, the value and what is allowed.
        """
        check_positive({"data.global_batch_size": self.global_batch_size})


@dataclass(frozen=True, kw_only=True)
class DataConfig(RowsConfig):
    """One dataset."""

    form: Literal["dataset"] = "dataset"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Source of rows: a dataset, or a mixture of several."""
    dataset: str = ""
    """Name of a built dataset under the root (`trm-data list`)."""

    @property
    @override
    def names(self) -> tuple[str, ...]:
        return (self.dataset,)

    @override
    def check(self) -> None:
        """Check the batch size and that the name is a valid name of one dataset."""
        super().check()
        if "," in self.dataset or "+" in self.dataset:
            raise ConfigError(
                f"data.dataset: the name of one dataset, got {self.dataset!r}; several are a mixture (data.form)"
            )
        _check_dataset_name("data.dataset", self.dataset)


@dataclass(frozen=True, kw_only=True)
class MixtureConfig(RowsConfig):
    """Several datasets of any kinds of puzzle, each with its share of the rows."""

    form: Literal["mixture"] = "mixture"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Source of rows: a dataset, or a mixture of several."""
    datasets: tuple[str, ...] = ()
    """Names of built datasets under the root, two or more, each once."""
    weights: tuple[float, ...] = ()
    """Relative share of each (default: equal shares)."""
    shared_puzzles: SharedPuzzles = "refuse"
    """Training puzzles that are in the validation or test split of another dataset: refuse, or drop from training."""

    @property
    @override
    def names(self) -> tuple[str, ...]:
        return self.datasets

    @property
    def shares(self) -> dict[str, float]:
        """Relative share of each dataset."""
        return dict(zip(self.datasets, self.weights or [1.0] * len(self.datasets), strict=True))

    @override
    def check(self) -> None:
        """Check that there are two or more datasets, each named once, and one positive weight for each or none."""
        super().check()
        if len(self.datasets) < 2 or len(set(self.datasets)) < len(self.datasets):
            raise ConfigError(
                f"data.datasets: two datasets or more, each once, got {' '.join(self.datasets) or 'none'}"
            )
        for name in self.datasets:
            _check_dataset_name("data.datasets", name)
        if self.weights and len(self.weights) != len(self.datasets):
            raise ConfigError(
                f"data.weights: one for each of {len(self.datasets)} datasets, got {len(self.weights)}"
            )
        for weight in self.weights:
            if not 0 < weight < float("inf"):
                raise ConfigError(f"data.weights: numbers above 0, got {weight:g}")


DATA: Alternatives[RowsConfig] = Alternatives(
    "data", "form", {"dataset": DataConfig, "mixture": MixtureConfig}
)
"""Every source of rows."""


def _check_dataset_name(key: str, name: str) -> None:
    try:
        check_name(name)
    except SpecError as error:
        raise ConfigError(f"{key}: {error}") from error
