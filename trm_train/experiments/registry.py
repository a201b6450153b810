"""How an experiment gets its name, and how it is found."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass

from trm_train.config.run import RunConfig, identity_hash
from trm_train.errors import ConfigError

GROUPS = ("quickstart", "baseline")


@dataclass(frozen=True)
class Experiment:
    """A named configuration.

    Attributes:
        name: What `trm-train run` takes.
        group: File it is written in.
        make: Returns its configuration.
        build: The command that builds its dataset.
        alias_of: Another experiment that it is meant to be equal to.
    """

    name: str
    group: str
    make: Callable[[], RunConfig]
    build: str = ""
    alias_of: str | None = None

    @property
    def guide(self) -> str:
        """Question, what varies, expected result, how to judge it, cost."""
        return inspect.getdoc(self.make) or ""

    @property
    def summary(self) -> str:
        """First line of the guide."""
        return self.guide.partition("\n")[0]


_EXPERIMENTS: dict[str, Experiment] = {}


def experiment(
    *, build: str, alias_of: str | None = None
) -> Callable[[Callable[[], RunConfig]], Callable[[], RunConfig]]:
    """Register a function as the experiment of its name."""

    def register(make: Callable[[], RunConfig]) -> Callable[[], RunConfig]:
        group = make.__module__.rsplit(".", 1)[-1]
        _EXPERIMENTS[make.__name__] = Experiment(make.__name__, group, make, build, alias_of)
        return make

    return register


def load_experiments() -> dict[str, Experiment]:
    """All experiments by name.

    Raises:
        ConfigError: Two of them are the same run and neither is declared an alias.
    """
    for group in GROUPS:
        importlib.import_module(f"trm_train.experiments.{group}")
    check_distinct(list(_EXPERIMENTS.values()))
    return dict(_EXPERIMENTS)


def datasets_by_experiment() -> dict[str, str]:
    """Name of the dataset that each experiment learns from: what `trm-data build --all-for` asks."""
    return {name: experiment.make().data.dataset for name, experiment in load_experiments().items()}


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


def check_distinct(experiments: list[Experiment]) -> None:
    """Refuse two experiments that would be the same run.

    Raises:
        ConfigError: Names both.
    """
    seen: dict[str, str] = {}
    for item in experiments:
        if item.alias_of is not None:
            continue
        config = item.make()
        key = f"{identity_hash(config)}-{config.seed}"
        if seen.setdefault(key, item.name) != item.name:
            raise ConfigError(
                f"experiments {seen[key]} and {item.name} are the same run; declare one an alias"
            )
