"""Registry of experiments: names, globs and lookup."""

from __future__ import annotations

import fnmatch
import functools
import importlib
import os
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import trm_train.experiments
from trm_data.errors import no_such
from trm_data.extensions import OWN_FILE
from trm_data.named import first_name
from trm_train.config.run import RunConfig, identity_hash
from trm_train.errors import ConfigError
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.setting import OWN, Scale, Setting
from trm_train.extensions import load_experiment_modules


@dataclass(frozen=True, eq=False)
class Experiment:
    """A named configuration, at one or more settings. Two are equal only if they are the same object.

    Attributes:
        name: Name for `trm-train run`.
        group: Name of the group, which is its file.
        configure: Returns the configuration at a setting.
        guide: Guide of the experiment; None for a run outside the research.
        aliases: Other experiment with the same configuration, by scale or setting; the two share its run.
        settings: Settings at which it can run, the default first.
        own: Returns a short description of a configuration's value of what the group varies.
        quantity: The quantity that the group varies, if it is a number.
        runs_of: Experiment that names its runs, for a point of a sweep; empty for its own name.
        series: What else varies, in words, if the group varies several quantities; points with one series are a curve.
    """

    name: str
    group: str
    configure: Callable[[Setting], RunConfig]
    guide: Guide | None = None
    aliases: Mapping[Scale | Setting, str] = field(default_factory=dict)
    settings: tuple[Setting, ...] = (OWN,)
    own: Callable[[RunConfig], str] = lambda _: ""
    quantity: Quantity | None = None
    runs_of: str = ""
    series: str = ""

    @property
    def summary(self) -> str:
        """Question of the guide."""
        return "" if self.guide is None else self.guide.question

    @property
    def varies(self) -> str:
        """Short description of its variation at its default setting."""
        return self.says(self.make())

    def says(self, config: RunConfig) -> str:
        """Return a short description of a configuration's variation, or of its dataset if there is none."""
        try:
            return self.own(config)
        except ConfigError:
            return config.data.label

    def setting(self, wanted: Setting | None = None) -> Setting:
        """Return the requested setting, or the default setting."""
        if wanted is None:
            return self.settings[0]
        if wanted not in self.settings:
            can = "; ".join(map(str, self.settings))
            raise ConfigError(f"{self.name} does not run at {wanted} (expected {can})")
        return wanted

    def make(self, setting: Setting | None = None) -> RunConfig:
        """Return the configuration at a setting, or at the default setting."""
        return self.configure(self.setting(setting))

    def alias_of(self, setting: Setting | None = None) -> str | None:
        """Return the experiment that this one is an alias of at a setting, or None."""
        found = self.setting(setting)
        return self.aliases.get(found) or self.aliases.get(found.scale)

    def at(self, setting: Setting | None) -> Experiment:
        """Return the same experiment at one setting only (default: its default setting)."""
        return replace(self, settings=(self.setting(setting),))

    def datasets(self, setting: Setting | None = None) -> tuple[str, ...]:
        """Return the main names of its datasets; a mixture has several datasets."""
        return tuple(map(first_name, self.make(setting).data.names))

    def dataset(self, setting: Setting | None = None) -> str:
        """Return the names of its datasets in one word, for display."""
        return "+".join(self.datasets(setting))


GLOB = frozenset("*?[")
"""Characters that make a name a glob."""

_EXPERIMENTS: dict[str, Experiment] = {}


def experiment(
    guide: Guide, *, setting: Setting = OWN, alias_of: str | None = None
) -> Callable[[Callable[[], RunConfig]], Callable[[], RunConfig]]:
    """Register a function as an experiment with its name, at one setting.

    Args:
        guide: Guide of the experiment.
        setting: Setting of the experiment, if it is part of the study.
        alias_of: Experiment with the same configuration; the two share the run of that experiment.

    Raises:
        ConfigError: Another file has an experiment with this name.
    """

    def register(make: Callable[[], RunConfig]) -> Callable[[], RunConfig]:
        name, group = make.__name__, make.__module__.rsplit(".", 1)[-1]
        aliases: dict[Scale | Setting, str] = {} if alias_of is None else {setting: alias_of}
        add_experiment(Experiment(name, group, lambda _: make(), guide, aliases, (setting,)))
        return make

    return register


def add_experiment(item: Experiment) -> None:
    """Register an experiment."""
    known = _EXPERIMENTS.get(item.name)
    if known is not None and known.group != item.group:
        raise ConfigError(f"experiment {item.name} is defined twice, in {known.group} and {item.group}")
    _EXPERIMENTS[item.name] = item


def load_experiments() -> dict[str, Experiment]:
    """Return all experiments by name: those of this package in the order of its files, then those of other packages."""
    _import_experiments(os.environ.get(OWN_FILE))
    return dict(_EXPERIMENTS)


@functools.cache
def _import_experiments(file: str | None) -> None:
    """Import every module that registers experiments, once for each `file` of the user."""
    for module in pkgutil.iter_modules(trm_train.experiments.__path__):
        importlib.import_module(f"{trm_train.experiments.__name__}.{module.name}")
    load_experiment_modules()


def experiments_at(setting: Setting) -> dict[str, Experiment]:
    """Return the experiments that run at a setting, by name."""
    return {name: item for name, item in load_experiments().items() if setting in item.settings}


def find_experiment(name: str) -> Experiment:
    """Return the experiment with this name."""
    experiments = load_experiments()
    if name in experiments:
        return experiments[name]
    if members := [each for each, item in experiments.items() if item.group == name]:
        raise ConfigError(f"{name} is a group; expected one of {', '.join(members)} (trm-train list {name})")
    if set(name) & GLOB:
        raise ConfigError(
            f"no experiment {name!r}: a pattern is for batch, list, status and evaluations; name one"
        )
    raise ConfigError(no_such(f"no experiment {name!r}", name, experiments, "trm-train list"))


def find_run_of(name: str, setting: Setting | None = None) -> Experiment:
    """Return the experiment with this name, or the target if it is an alias, at a setting.

    The `execution` options are always those of the experiment with this name.

    Raises:
        ConfigError: The target does not exist, or is another run.
    """
    found = find_experiment(name).at(setting)
    target = found.alias_of()
    if target is None:
        return found
    of = find_experiment(target).at(found.setting())
    if _run_key(of.make()) != _run_key(found.make()):
        raise ConfigError(
            f"experiment {name} is declared an alias of {target}, but its configuration is another. "
            "Give both the same configuration, or remove alias_of."
        )

    def configure(setting: Setting) -> RunConfig:
        return replace(of.configure(setting), execution=found.configure(setting).execution)

    return replace(of, configure=configure)


def _run_key(config: RunConfig) -> tuple[str, int]:
    return identity_hash(config), config.seed


def select_experiments(
    patterns: Sequence[str], setting: Setting | None = None, sweeps: Mapping[str, Experiment] | None = None
) -> list[Experiment]:
    """Return the experiments that match patterns, each once, in the order of the groups, at a setting.

    Args:
        patterns: Names, groups, prefixes of names, or globs (`exp0[1-3]*`); none for all.
        setting: Setting of all experiments; None for the default setting of each.
        sweeps: Points of sweeps to choose from too, by name.
    """
    everywhere = {**load_experiments(), **(sweeps or {})}
    there = {name: item for name, item in everywhere.items() if setting is None or setting in item.settings}
    chosen: set[str] = set()
    for pattern in patterns or ["*"]:
        found = _matching(pattern, there)
        if not found:
            elsewhere = _matching(pattern, everywhere)
            if not elsewhere:
                said = "no experiment matches" if set(pattern) & GLOB else "no experiment"
                raise ConfigError(no_such(f"{said} {pattern!r}", pattern, everywhere, "trm-train list"))
            can = dict.fromkeys(str(each) for name in elsewhere for each in everywhere[name].settings)
            raise ConfigError(f"{pattern}: does not run at {setting} (expected {'; '.join(can)})")
        chosen |= found
    return [item.at(setting) for name, item in there.items() if name in chosen]


def _matching(pattern: str, experiments: Mapping[str, Experiment]) -> set[str]:
    exactly = {name for name, item in experiments.items() if pattern in (name, item.group)}
    return exactly or {
        name for name in experiments if name.startswith(pattern) or fnmatch.fnmatchcase(name, pattern)
    }


def groups_of(experiments: Iterable[Experiment]) -> dict[str, list[Experiment]]:
    """Return the experiments by group, in order."""
    groups: dict[str, list[Experiment]] = {}
    for item in experiments:
        groups.setdefault(item.group, []).append(item)
    return groups
