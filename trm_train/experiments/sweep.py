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

from trm_data.closest import no_such
from trm_data.errors import DataError
from trm_data.manifest import read_manifest
from trm_data.storage.atomic import json_bytes, parse_json, with_digest
from trm_data.storage.root import Layout
from trm_train.config.overrides import parse_config
from trm_train.config.run import RunConfig, config_from_json, config_to_json, identity_hash
from trm_train.errors import ConfigError
from trm_train.experiments.dataset import is_built, plan_dataset
from trm_train.experiments.guide import Guide, Quantity
from trm_train.experiments.registry import Experiment, load_experiments
from trm_train.experiments.setting import Setting

FORMAT_VERSION = 1
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,59}")
"""Valid name of a sweep."""
DATASET = "data.dataset"
Grid = dict[str, tuple[str, ...]]
"""Values of each swept option, as on the command line."""
UNITS = {
    "model.hidden_size": "features",
    "data.global_batch_size": "slots",
    "total_steps": "steps",
    "model.halt_max_steps": "steps",
    "model.num_layers": "layers",
    "model.num_heads": "heads",
    "model.h_cycles": "cycles",
    "model.l_cycles": "cycles",
}
SIZES = {"puzzles", "augmentations", "features", "slots", "steps"}
"""Units with a logarithmic axis; other numbers have one if they span `DECADE`."""
DECADE = 8


@dataclass(frozen=True)
class Varied:
    """Value of a quantity that a sweep varies.

    Attributes:
        name: Swept option, or the property of a swept dataset.
        value: Number, or the text of the option.
        unit: Unit of a number; may be empty.
    """

    name: str
    value: float | str
    unit: str = ""

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return self.value if self.name == DATASET else f"{self.name.rpartition('.')[2]} {self.value}"
        number = f"{self.value:,.10g}"
        return (
            f"{number} {self.unit}"
            if self.unit in _OF_DATASETS
            else f"{self.name.rpartition('.')[2]} {number}"
        )


_OF_DATASETS = {"puzzles": "training puzzles", "augmentations": "augmentations of a puzzle"}
"""Unit and name of the numbers of a dataset."""


@dataclass(frozen=True)
class Point:
    """One combination of values.

    Attributes:
        config: Configuration of its runs, with the seed 0.
        values: The dataset, its numbers of puzzles and augmentations, and the value of each other option.
    """

    config: RunConfig
    values: tuple[Varied, ...]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep, as recorded in `<root>/sweeps/<name>.json`.

    Attributes:
        name: Name of the sweep; reports and queries use it as the group of its runs.
        experiment: Experiment of all its runs.
        setting: Setting of the experiment.
        grid: Values of each swept option.
        points: Combinations of these values, in the order of the grid.
    """

    name: str
    experiment: str
    setting: Setting
    grid: Grid
    points: tuple[Point, ...]

    def says(self, point: Point) -> str:
        """Return what varies at a point in words and numbers, such as `300 puzzles x 10 augmentations`."""
        return " x ".join(str(value) for value in point.values if value.name in self._varying)

    @property
    def _varying(self) -> list[str]:
        """Names of the quantities that differ between points; a dataset only if its numbers do not tell it."""
        columns: dict[str, list[Varied]] = {}
        for value in itertools.chain.from_iterable(point.values for point in self.points):
            columns.setdefault(value.name, []).append(value)
        names = [name for name, column in columns.items() if len(set(column)) > 1]
        sizes = [
            tuple(value for value in point.values if value.name in _OF_DATASETS.values())
            for point in self.points
        ]
        told = len(set(sizes)) == len(self.grid.get(DATASET, ())) and all(sizes)
        names = [name for name in names if name != DATASET or not told]
        return names or [name for name in columns if name != DATASET or not told]

    @property
    def _axis(self) -> str | None:
        """Name of the first varying quantity that is a number at every point: the axis of figures."""
        for name in self._varying:
            found = [value.value for point in self.points for value in point.values if value.name == name]
            if len(found) == len(self.points) and not any(isinstance(value, str) for value in found):
                return name
        return None

    def _follows(self, name: str, axis: str | None) -> bool:
        """Return whether a quantity has one value for each value of the axis: augmentations of each size, say."""
        of = [{value.name: value for value in point.values} for point in self.points]
        return len({(each.get(axis or ""), each.get(name)) for each in of}) == len(
            {each.get(axis or "") for each in of}
        )

    def experiments(self) -> list[Experiment]:
        """Return each point as an experiment of the group `name`, whose runs are those of the swept experiment."""
        axis, width = self._axis, len(str(len(self.points)))
        curves = [name for name in self._varying if name != axis and not self._follows(name, axis)]
        names = " and ".join(name.rpartition(".")[2] for name in self._varying)
        guide = Guide(
            question=f"How does exact accuracy depend on {names}?",
            varies=f"{names} ({', '.join(self.grid)} of {self.experiment})",
            fixed="all other options; config.json of a run has them",
            expected="a sweep makes no claim",
            judge_by="the figure of exact accuracy, with intervals over seeds",
        )
        found: list[Experiment] = []
        for number, point in enumerate(self.points, start=1):
            others = [value for value in point.values if value.name in curves]
            said = self.says(point)
            found.append(
                Experiment(
                    name=f"{self.name}_{number:0{width}}",
                    group=self.name,
                    configure=lambda _, config=point.config: config,
                    guide=guide,
                    settings=(self.setting,),
                    own=lambda _, said=said: said,
                    quantity=None if axis is None else self._quantity(axis, point),
                    runs_of=self.experiment,
                    series=" x ".join(map(str, others)) if axis is not None else "",
                )
            )
        return found

    def _quantity(self, name: str, point: Point) -> Quantity:
        values = {p: next(v for v in p.values if v.name == name) for p in self.points}
        numbers = [float(value.value) for value in values.values()]
        unit, number = values[point].unit, float(values[point].value)
        log = min(numbers) > 0 and (unit in SIZES or max(numbers) >= DECADE * min(numbers))
        return Quantity(name.rpartition(".")[2], unit, lambda _: number, log)


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
    columns: list[list[list[str]]] = []
    for key, texts in grid.items():
        if key == "seed":
            raise ConfigError(f"--sweep seed: seeds have their own option. Use --seeds {','.join(texts)}")
        if key.startswith("execution."):
            raise ConfigError(
                f"--sweep {key}: execution options do not change the name of a run, so all values would be one run. "
                "Set it once for all runs instead."
            )
        if key not in known:
            raise ConfigError(
                no_such(f"--sweep: no option {key!r}", key, known, "trm-train run EXPERIMENT --help")
            )
        columns.append([_words(config, key, text, known[key]) for text in texts])
    return [tuple(itertools.chain(*words)) for words in itertools.product(*columns)]


def _options(config: RunConfig) -> dict[str, Any]:
    """Return every option that a sweep may vary, with its value."""
    found: dict[str, Any] = {"total_steps": config.total_steps}
    for part in ("data", "model", "optim", "loss"):
        value = getattr(config, part)
        found |= {f"{part}.{item.name}": getattr(value, item.name) for item in dataclasses.fields(value)}
    return found


def _words(config: RunConfig, key: str, text: str, now: Any) -> list[str]:
    """Return the command-line option that sets a value; check that the value has the option's type."""
    part, _, name = key.rpartition(".")
    option = f"--{key.replace('_', '-')}"
    forms = [[option, text]]
    if isinstance(now, bool) and (said := text.lower()) in ("true", "false"):
        if said == str(now).lower():
            return []
        flag = f"--{part}.no-{name.replace('_', '-')}" if now else option
        forms = [[flag], [option, said.capitalize()]]  # of a flag, and of an option with a value
    for words in forms:
        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                parse_config(config, words)
            return words
        except SystemExit:
            continue
    expected = "true or false" if isinstance(now, bool) else f"{type(now).__name__}, such as {now}"
    raise ConfigError(
        f"--sweep {key}: a value has the wrong type (got {text!r}; expected {expected}). Correct the value."
    )


def sizes_of(name: str, layout: Layout) -> tuple[Varied, ...]:
    """Return a dataset's numbers of training puzzles and augmentations; () if they are unknown before it is built."""
    if is_built(name, layout):
        manifest = read_manifest(layout, name)
        numbers = manifest.splits["train"].num_groups, manifest.spec.aug
    elif (planned := plan_dataset(name)) is not None and planned.groups is not None:
        from trm_data.named import named_dataset

        numbers = planned.groups, named_dataset(name).request().aug
    else:
        return ()
    return tuple(
        Varied(of, number, unit) for (unit, of), number in zip(_OF_DATASETS.items(), numbers, strict=True)
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
        ConfigError: The name is not valid, or is that of an experiment or group.
    """
    name = name or "_".join([item.name, *(key.rpartition(".")[2] for key in grid)])
    experiments = load_experiments()
    if not NAME.fullmatch(name) or name in {*experiments, *(each.group for each in experiments.values())}:
        raise ConfigError(
            f"--name: not a name for a sweep (got {name!r}; expected a letter, then up to 59 letters, digits and _, "
            "and not the name of an experiment or group). Choose another name."
        )
    points: list[Point] = []
    for config, texts in zip(configs, itertools.product(*grid.values()), strict=True):
        values: list[Varied] = []
        for key, text in zip(grid, texts, strict=True):
            if key == DATASET:
                values += [Varied(key, text), *sizes_of(text, layout)]
                continue
            value = _options(config)[key]
            number = isinstance(value, int | float) and not isinstance(value, bool)
            values.append(Varied(key, value, UNITS.get(key, "")) if number else Varied(key, text))
        points.append(Point(dataclasses.replace(config, seed=0), tuple(values)))
    return Sweep(name=name, experiment=item.name, setting=item.setting(), grid=grid, points=tuple(points))


def check_sweep(sweep: Sweep, layout: Layout) -> None:
    """Raise ConfigError if a sweep of this name has other values or other options."""
    known = _read(f"{sweep.name}.json", layout)
    if known is None:
        return
    mine, theirs = _key(sweep), _key(known)
    if mine != theirs:
        of = next((key for key in mine if mine[key] != theirs.get(key)), "options")
        got, expected = mine.get(of, ""), theirs.get(of, "no such option")
        raise ConfigError(
            f"sweep {sweep.name}: exists with other values of {of} (got {got}; expected {expected}). Choose another "
            f"name with --name, or delete {layout.sweeps.where(f'{sweep.name}.json')}, which keeps its runs."
        )


def _key(sweep: Sweep) -> dict[str, str]:
    """Return what two sweeps of one name must share, in words."""
    said = {"experiment": f"{sweep.experiment} {sweep.setting}"}
    said |= {key: ",".join(values) for key, values in sweep.grid.items()}
    hashes = ",".join(identity_hash(point.config)[:8] for point in sweep.points)
    return said | {"swept options": ",".join(sweep.grid), "the other options, by run": hashes}


def write_sweep(sweep: Sweep, layout: Layout) -> None:
    """Write the record of a sweep, unless its content is unchanged."""
    check_sweep(sweep, layout)
    points = [
        {
            "identity": identity_hash(point.config),
            "varies": sweep.says(point),
            "values": [asdict(value) for value in point.values],
            "config": config_to_json(point.config),
        }
        for point in sweep.points
    ]
    of = {"name": sweep.name, "experiment": sweep.experiment, **asdict(sweep.setting)}
    value = {"format_version": FORMAT_VERSION, **of, "grid": sweep.grid, "points": points}
    content, file = json_bytes(with_digest(value)), f"{sweep.name}.json"
    if layout.sweeps.read(file) != content:
        layout.sweeps.write(file, content)


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
    content, where = layout.sweeps.read(file), layout.sweeps.where(file)
    if content is None:
        return None
    try:
        value: Mapping[str, Any] = parse_json(content)
        if with_digest(value) != value:
            raise ConfigError(f"{where}: was edited or damaged (its digest differs). Delete or restore it.")
        if value["format_version"] > FORMAT_VERSION:
            raise ConfigError(
                f"{where}: was written by a newer version of trm-train (got format {value['format_version']}; expected "
                f"up to {FORMAT_VERSION}). Upgrade."
            )
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
        raise ConfigError(f"{where}: is not a record of a sweep ({error}). Delete or restore it.") from error


def points_of_runs(sweeps: Iterable[Sweep]) -> dict[tuple[str, str], dict[str, str]]:
    """Return what varies by name of the sweep, for each experiment and identity of runs of sweeps."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for sweep in sweeps:
        for point in sweep.points:
            of_run = found.setdefault((sweep.experiment, identity_hash(point.config)), {})
            of_run[sweep.name] = sweep.says(point)
    return found


def sweep_experiments(sweeps: Iterable[Sweep]) -> dict[str, Experiment]:
    """Return the points of sweeps as experiments, by name."""
    return {item.name: item for sweep in sweeps for item in sweep.experiments()}
