"""Sweeps: an experiment at every combination of values of some options.

`<root>/sweeps/<name>.json` records what varies between the runs of a sweep. It does not change their identity: the same
run started alone has the same name, and a run may belong to several sweeps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trm_data.errors import DataError, no_such
from trm_data.manifest import read_manifest
from trm_data.named import named_dataset
from trm_data.storage.atomic import json_bytes, parse_json, with_digest
from trm_data.storage.root import Layout
from trm_train.config.overrides import parse_config
from trm_train.config.run import RunConfig, config_from_json, config_to_json, identity_hash
from trm_train.errors import ConfigError
from trm_train.experiments.dataset import is_built, plan_dataset
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.registry import Experiment, load_experiments
from trm_train.experiments.setting import OWN, Setting

FORMAT_VERSION = 1
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,59}")
"""Valid name of a sweep."""
Grid = dict[str, tuple[str, ...]]
"""Values of each swept option, as on the command line."""
DATASET = "data.dataset"
SIZES = {"training puzzles": "puzzles", "augmentations": "augmentations"}
"""Numbers that stand for a dataset, with their units."""
WIDE = 3
"""Ratio of the largest to the smallest number from which an axis is logarithmic."""


@dataclass(frozen=True)
class Varied:
    """Name and value of a quantity at a point, a number or the text of an option; a dataset's sizes have units."""

    name: str
    value: float | str
    unit: str = ""

    def __str__(self) -> str:
        said = self.value if isinstance(self.value, str) else f"{self.value:,.10g}"
        return f"{said} {self.unit}" if self.name in SIZES else f"{self.name} {said}"


@dataclass(frozen=True)
class Point:
    """One combination of values: the configuration of its runs with the seed 0, and each quantity."""

    config: RunConfig
    values: tuple[Varied, ...]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep, as recorded in `<root>/sweeps/<name>.json`.

    Attributes:
        name: Name of the sweep; reports and queries use it as the group of its runs.
        experiment: Experiment of all its runs.
        setting: Setting of the experiment; `OWN` if runs have other datasets than the experiment.
        grid: Values of each swept option.
        points: Combinations of these values, in the order of the grid.
    """

    name: str
    experiment: str
    setting: Setting
    grid: Grid
    points: tuple[Point, ...]

    @property
    def identities(self) -> list[str]:
        """Identity of the runs of each point."""
        return [identity_hash(point.config) for point in self.points]

    @property
    def varying(self) -> dict[str, list[Varied]]:
        """Values at all points of each quantity that differs between them; of all quantities if none differs."""
        columns = {
            column[0].name: list(column) for column in zip(*(p.values for p in self.points), strict=True)
        }
        return {name: column for name, column in columns.items() if len(set(column)) > 1} or columns

    def says(self) -> list[str]:
        """Return what varies in words and numbers, such as `300 puzzles x 10 augmentations`, of each point."""
        return [" x ".join(map(str, values)) for values in zip(*self.varying.values(), strict=True)]

    def experiments(self) -> list[Experiment]:
        """Return each point as an experiment of the group `name`, whose runs are those of the swept experiment.

        The first quantity that is a number everywhere is the axis. Others make series, unless the axis tells them.
        """
        columns = self.varying
        numeric = (n for n, column in columns.items() if not any(isinstance(v.value, str) for v in column))
        axis = columns.get(next(numeric, ""), [])
        told = [
            column
            for column in columns.values()
            if len(set(zip(axis, column, strict=False))) == len(set(axis))
        ]
        others = [column for column in columns.values() if axis and column not in told]
        series = [" x ".join(str(column[at]) for column in others) for at in range(len(self.points))]
        numbers = [float(value.value) for value in axis]
        log = bool(axis) and 0 < WIDE * min(numbers) <= max(numbers)
        guide = Guide(
            question=f"How does exact accuracy depend on {' and '.join(columns)}?",
            varies=f"{' and '.join(columns)} ({', '.join(self.grid)} of {self.experiment})",
            fixed="all other options; config.json of a run has them",
            expected="a sweep makes no claim",
            judge_by="the figure of exact accuracy, with intervals over seeds",
        )
        return [
            Experiment(
                name=f"{self.name}_{at + 1:0{len(str(len(self.points)))}}",
                group=self.name,
                configure=lambda _, config=point.config: config,
                guide=guide,
                settings=(self.setting,),
                own=lambda _, said=said: said,
                quantity=Quantity(axis[at].name, axis[at].unit, lambda _, at=at: numbers[at], log)
                if axis
                else None,
                runs_of=self.experiment,
                series=series[at],
            )
            for at, (point, said) in enumerate(zip(self.points, self.says(), strict=True))
        ]


def parse_grid(texts: Iterable[str]) -> Grid:
    """Parse values of `--sweep`, such as `model.hidden_size=64,96`; commas in parentheses belong to a value."""
    grid: Grid = {}
    for text in texts:
        key, _, values = text.partition("=")
        key = key.strip().removeprefix("--").replace("-", "_")
        found = [value.strip() for value in re.split(r",(?![^(]*\))", values)]
        if not key or not all(found):
            raise ConfigError(
                f"--sweep: no values (got {text!r}; expected OPTION=VALUE,VALUE,..., none empty). "
                "Write it as --sweep model.hidden_size=64,96."
            )
        if key in grid:
            raise ConfigError(
                f"--sweep {key}: given twice (got {','.join(grid[key])} and {','.join(found)}; expected one --sweep "
                f"for each option). Name all values in one: --sweep {key}={','.join([*grid[key], *found])}"
            )
        grid[key] = tuple(dict.fromkeys(found))
    return grid


def words_of_points(config: RunConfig, grid: Grid) -> list[tuple[str, ...]]:
    """Return the command-line options of every combination of values.

    Raises:
        ConfigError: An option does not exist or cannot be swept, or a value has the wrong type.
    """
    known = _options(config)
    for key in grid:
        if key == "seed" or key.startswith("execution."):
            raise ConfigError(
                f"--sweep {key}: does not change what a run's name stands for (got {key}; expected an option of data, "
                "model, optim or loss, or total_steps). Seeds are --seeds 0,1; set execution options for all runs."
            )
        if key not in known:
            said = f"--sweep: no option {key!r}"
            raise ConfigError(no_such(said, key, known, "trm-train run EXPERIMENT --help"))
    columns = [[_words(config, key, text, known[key]) for text in texts] for key, texts in grid.items()]
    return [tuple(itertools.chain(*words)) for words in itertools.product(*columns)]


def _options(config: RunConfig) -> dict[str, Any]:
    """Return every option that a sweep may vary, with its value."""
    found: dict[str, Any] = {"total_steps": config.total_steps}
    for part in ("data", "model", "optim", "loss"):
        found |= {f"{part}.{name}": value for name, value in vars(getattr(config, part)).items()}
    return found


def _words(config: RunConfig, key: str, text: str, now: Any) -> list[str]:
    """Return the command-line option that sets a value; check that the value has the option's type."""
    option = f"--{key.replace('_', '-')}"
    forms = [[option, text]]
    if isinstance(now, bool) and (said := text.lower()) in ("true", "false"):
        if said == str(now).lower():
            return []
        flag = option.replace(".", ".no-") if now else option
        forms = [[flag], [option, said.capitalize()]]  # of a flag, and of an option with a value
    for words in forms:
        with (
            contextlib.suppress(SystemExit),
            contextlib.redirect_stderr(io.StringIO()),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            parse_config(config, words)
            return words
    expected = "true or false" if isinstance(now, bool) else f"{type(now).__name__}, such as {now}"
    raise ConfigError(
        f"--sweep {key}: a value has the wrong type (got {text!r}; expected {expected}). Correct the value."
    )


def _sizes_of(name: str, layout: Layout) -> tuple[int, int] | None:
    """Return a dataset's training puzzles and augmentations; None if they are unknown before it is built."""
    if is_built(name, layout):
        manifest = read_manifest(layout, name)
        return manifest.splits["train"].num_groups, manifest.spec.aug
    planned = plan_dataset(name)
    return (
        None
        if planned is None or planned.groups is None
        else (planned.groups, named_dataset(name).request().aug)
    )


def make_sweep(
    name: str, item: Experiment, grid: Grid, configs: Sequence[RunConfig], layout: Layout
) -> Sweep:
    """Return the record of a sweep.

    Args:
        name: Name of the sweep; empty for one made of the experiment and the options.
        item: The experiment, at its setting.
        grid: Values of each option.
        configs: Configuration of every combination, in the order of `words_of_points`.
        layout: The root.

    Raises:
        ConfigError: The name is not valid, is that of an experiment or group, or has other values.
    """
    name = name or "_".join([item.name, *(key.rpartition(".")[2] for key in grid)])
    experiments = load_experiments()
    if not NAME.fullmatch(name) or name in {*experiments, *(each.group for each in experiments.values())}:
        raise ConfigError(
            f"--name: not a name for a sweep (got {name!r}; expected a letter, then up to 59 letters, digits and _, "
            "and not the name of an experiment or group). Choose another name."
        )
    sizes = {text: _sizes_of(text, layout) for text in grid.get(DATASET, ())}
    tell = None not in sizes.values() and len(set(sizes.values())) == len(sizes)
    points: list[Point] = []
    for config, texts in zip(configs, itertools.product(*grid.values()), strict=True):
        values: list[Varied] = []
        for key, text in zip(grid, texts, strict=True):
            value, short = _options(config)[key], key.rpartition(".")[2]
            if key == DATASET and tell:
                values += [
                    Varied(*each) for each in zip(SIZES, sizes[text] or (), SIZES.values(), strict=True)
                ]
            else:
                number = isinstance(value, int | float) and not isinstance(value, bool)
                values.append(Varied(short, value if number else text))
        points.append(Point(dataclasses.replace(config, seed=0), tuple(values)))
    trained_on = {config.data.names for config in configs}
    setting = item.setting() if trained_on == {item.make().data.names} else OWN
    sweep = Sweep(name=name, experiment=item.name, setting=setting, grid=grid, points=tuple(points))
    known = _read(f"{name}.json", layout)
    if known is not None and (known.experiment, known.identities) != (item.name, sweep.identities):
        got, expected = (
            " ".join([each.experiment, *(f"{key}={','.join(values)}" for key, values in each.grid.items())])
            for each in (sweep, known)
        )
        raise ConfigError(
            f"sweep {name}: exists with other values (got {got}; expected {expected}, and equal other options). Choose "
            f"another --name, or delete {layout.sweeps.where(f'{name}.json')}, which keeps the runs."
        )
    return sweep


def write_sweep(sweep: Sweep, layout: Layout) -> None:
    """Write the record of a sweep."""
    points = [
        {
            "identity": identity,
            "varies": said,
            "values": [asdict(value) for value in point.values],
            "config": config_to_json(point.config),
        }
        for point, identity, said in zip(sweep.points, sweep.identities, sweep.says(), strict=True)
    ]
    of = {"name": sweep.name, "experiment": sweep.experiment, **asdict(sweep.setting)}
    value = {"format_version": FORMAT_VERSION, **of, "grid": sweep.grid, "points": points}
    layout.sweeps.write(f"{sweep.name}.json", json_bytes(with_digest(value)))


def read_sweeps(layout: Layout) -> tuple[list[Sweep], list[str]]:
    """Return all sweeps of a root, and a line for each that cannot be read."""

    def read(file: str) -> Sweep | str | None:
        try:
            return _read(file, layout)
        except (ConfigError, DataError) as error:
            return str(error)

    found = layout.store.each(read, layout.sweeps.names("*.json"))
    return [each for each in found if isinstance(each, Sweep)], [e for e in found if isinstance(e, str)]


def _read(file: str, layout: Layout) -> Sweep | None:
    content = layout.sweeps.read(file)
    if content is None:
        return None
    try:
        value: Mapping[str, Any] = parse_json(content)
        if with_digest(value) != value or value["format_version"] > FORMAT_VERSION:
            raise ValueError("its digest differs, or a newer version wrote it")
        return Sweep(
            name=value["name"],
            experiment=value["experiment"],
            setting=Setting(value["scale"], value["data"]),
            grid={key: tuple(values) for key, values in value["grid"].items()},
            points=tuple(
                Point(config_from_json(point["config"]), tuple(Varied(**each) for each in point["values"]))
                for point in value["points"]
            ),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        where = layout.sweeps.where(file)
        raise ConfigError(f"{where}: is not a record of a sweep ({error}). Restore or delete it.") from error


def points_of_runs(sweeps: Iterable[Sweep]) -> dict[tuple[str, str], dict[str, str]]:
    """Return what varies by name of the sweep, for each experiment and identity of runs of sweeps."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for sweep in sweeps:
        for identity, said in zip(sweep.identities, sweep.says(), strict=True):
            found.setdefault((sweep.experiment, identity), {})[sweep.name] = said
    return found


def sweep_experiments(sweeps: Iterable[Sweep]) -> dict[str, Experiment]:
    """Return the points of sweeps as experiments, by name."""
    return {item.name: item for sweep in sweeps for item in sweep.experiments()}
