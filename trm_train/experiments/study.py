"""A group of experiments that vary one option of the baseline."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trm_data.named import first_name
from trm_train.config.run import RunConfig
from trm_train.errors import ConfigError
from trm_train.experiments.baseline import baseline
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.registry import Experiment, add_experiment
from trm_train.experiments.setting import SCALES, SETTINGS, Scale, Setting, at

Change = Callable[[RunConfig, Setting], RunConfig]


@dataclass(frozen=True, kw_only=True)
class Study:
    """A group of experiments.

    Attributes:
        name: Name of the group and of its file.
        guide: Common guide; `varies` describes what differs between the experiments.
        base: Returns the configuration that they vary, at a setting.
        settings: Settings at which they can run.
        quantity: The varied quantity, if it is a number.
    """

    name: str
    guide: Guide
    base: Callable[[Setting], RunConfig] = baseline
    settings: tuple[Setting, ...] = SETTINGS
    quantity: Quantity | None = None

    def add(
        self,
        name: str,
        what: str | Callable[[Any], str],
        fields: Mapping[str, Any] | None = None,
        *,
        change: Change | None = None,
        alias_of: str | Mapping[Scale | Setting, str] | None = None,
    ) -> None:
        """Register an experiment.

        Args:
            name: Name for `trm-train run`.
            what: Short description of the variation, or a function that returns it for a configuration.
            fields: Differences from the base, by dotted path; values may differ between scales (`By`).
            change: Differences that are computed from the base.
            alias_of: Experiment with the same run, at all or at some scales or settings.
        """

        def configure(setting: Setting) -> RunConfig:
            config = override(self.base(setting), fields or {}, setting.scale)
            return config if change is None else change(config, setting)

        aliases: dict[Scale | Setting, str] = {}
        if isinstance(alias_of, str):
            aliases |= dict.fromkeys(SCALES, alias_of)
        elif alias_of is not None:
            aliases |= alias_of
        own = what if callable(what) else lambda _: what
        add_experiment(
            Experiment(name, self.name, configure, self.guide, aliases, self.settings, own, self.quantity)
        )


def override(config: RunConfig, fields: Mapping[str, Any], scale: Scale) -> RunConfig:
    """Replace fields of the parts of a configuration, by dotted path."""
    for path, value in fields.items():
        part, _, name = path.partition(".")
        if not name:
            config = dataclasses.replace(config, **{part: at(value, scale)})
            continue
        replaced = dataclasses.replace(getattr(config, part), **{name: at(value, scale)})
        config = dataclasses.replace(config, **{part: replaced})
    return config


def tidy(value: float) -> float:
    """Round to six significant digits, so that computed numbers look like written ones."""
    return float(f"{value:.6g}")


def puzzles(name: Callable[[Setting], str]) -> Change:
    """Return a change that replaces the dataset."""

    def change(config: RunConfig, setting: Setting) -> RunConfig:
        return dataclasses.replace(config, data=dataclasses.replace(config.data, dataset=name(setting)))

    return change


def puzzles_of(config: RunConfig) -> int:
    """Return the number of training puzzles, from the name of the dataset."""
    return _sizes_of(config)[0]


def augmentations_of(config: RunConfig) -> int:
    """Return the number of augmentations of each puzzle, from the name of the dataset."""
    return _sizes_of(config)[1]


def _sizes_of(config: RunConfig) -> tuple[int, int]:
    name = config.data.only_dataset()
    found = _SIZES.search(first_name(name))
    if found is None:
        raise ConfigError(f"data.dataset {name}: its name does not end in -SIZE-aug-AUGMENTATIONS")
    return int(found[1]), int(found[2])


_SIZES = re.compile(r"-(\d+)-aug-(\d+)(?:-rule)?(?:-virtual)?$")
