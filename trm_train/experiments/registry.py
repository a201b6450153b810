"""How an experiment gets its name, and how it is found."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import trm_train.experiments
from trm_train.config.run import RunConfig, identity_hash
from trm_train.errors import ConfigError
from trm_train.experiments.guide import Guide


@dataclass(frozen=True)
class Experiment:
    """A named configuration.

    Attributes:
        name: What `trm-train run` takes.
        group: File it is written in.
        make: Returns its configuration.
        guide: What to know of it; None for a run that is no part of the research.
        alias_of: Another experiment that it is meant to be equal to, and whose run it is.
    """

    name: str
    group: str
    make: Callable[[], RunConfig]
    guide: Guide | None = None
    alias_of: str | None = None

    @property
    def summary(self) -> str:
        """The question of the guide."""
        return "" if self.guide is None else self.guide.question

    @cached_property
    def dataset(self) -> str:
        """Name of the dataset it learns from."""
        return self.make().data.only_dataset()

    @property
    def build(self) -> str:
        """The command that builds its dataset."""
        return f"trm-data build {self.dataset}"


_EXPERIMENTS: dict[str, Experiment] = {}


def experiment(
    guide: Guide, *, alias_of: str | None = None
) -> Callable[[Callable[[], RunConfig]], Callable[[], RunConfig]]:
    """Register a function as the experiment of its name.

    Args:
        guide: Of the experiment.
        alias_of: An experiment with the same configuration; the two are one run, under that one's name.

    Raises:
        ConfigError: Another file has an experiment of that name.
    """

    def register(make: Callable[[], RunConfig]) -> Callable[[], RunConfig]:
        name, group = make.__name__, make.__module__.rsplit(".", 1)[-1]
        if name in _EXPERIMENTS and _EXPERIMENTS[name].group != group:
            raise ConfigError(
                f"experiment {name} is written twice, in {_EXPERIMENTS[name].group} and {group}"
            )
        _EXPERIMENTS[name] = Experiment(name, group, make, guide, alias_of)
        return make

    return register


def load_experiments() -> dict[str, Experiment]:
    """All experiments by name: those of every module of this package, in the order of its files.

    Raises:
        ConfigError: Two of them are the same run and neither is declared an alias, or an alias is none.
    """
    for module in pkgutil.iter_modules(trm_train.experiments.__path__):
        importlib.import_module(f"{trm_train.experiments.__name__}.{module.name}")
    check_distinct(list(_EXPERIMENTS.values()))
    return dict(_EXPERIMENTS)


def find_experiment(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        ConfigError: There is none; the message names the closest.
    """
    experiments = load_experiments()
    if name in experiments:
        return experiments[name]
    close = difflib.get_close_matches(name, experiments, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(experiments)}"
    raise ConfigError(f"no experiment {name!r}; {hint} (trm-train list)")


def find_run_of(name: str) -> Experiment:
    """The experiment whose run that is: the one of that name, or what it is an alias of.

    Raises:
        ConfigError: There is none.
    """
    found = find_experiment(name)
    return found if found.alias_of is None else find_experiment(found.alias_of)


def datasets_by_experiment() -> dict[str, str]:
    """The dataset that each experiment learns from, aliases included."""
    return {name: item.dataset for name, item in load_experiments().items()}


def check_distinct(experiments: list[Experiment]) -> None:
    """Refuse two experiments that would be the same run, and aliases that would not.

    Raises:
        ConfigError: Names both.
    """
    runs: dict[str, str] = {}
    by_name = {item.name: item for item in experiments}
    for item in experiments:
        if item.alias_of is not None:
            _check_alias(item, by_name.get(item.alias_of))
        elif runs.setdefault(_run_key(item), item.name) != item.name:
            raise ConfigError(
                f"experiments {runs[_run_key(item)]} and {item.name} are the same run; declare one an alias"
            )


def _check_alias(item: Experiment, target: Experiment | None) -> None:
    if target is None or target.alias_of is not None:
        what = "no experiment" if target is None else f"an alias itself (of {target.alias_of})"
        raise ConfigError(f"experiment {item.name} is declared an alias of {item.alias_of}, which is {what}")
    if _run_key(item) != _run_key(target):
        raise ConfigError(
            f"experiment {item.name} is declared an alias of {target.name}, but is another run; "
            "change its configuration, or let it be one of its own"
        )


def _run_key(item: Experiment) -> str:
    """Equal for experiments that are the same run."""
    config = item.make()
    return f"{identity_hash(config)}-{config.seed}"
