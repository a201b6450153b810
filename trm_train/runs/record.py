"""Name, folder and record (`config.json`) of a run.

A run's name is `<experiment>-<hash8>-s<seed>`. It has no random part, so the same command finds its own checkpoints.
`<root>/runs/<group>/<experiment>/<run>/` holds config.json, status.json, checkpoints/, metrics/ and logs/.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from trm_data.errors import no_such
from trm_data.loader.component import (
    Component,
    component_of,
    digest_of_all,
    identifiers_of,
    place,
    vocabulary_of,
)
from trm_data.manifest import Manifest
from trm_data.named import first_name
from trm_data.storage.atomic import json_bytes, parse_json, with_digest
from trm_data.storage.local import LocalStore
from trm_data.storage.root import Layout, folder_on_bucket
from trm_data.storage.store import Folder
from trm_train.config.run import (
    InputSpec,
    RunConfig,
    check_extension,
    config_from_json,
    config_to_json,
    differences,
    grid_of,
    identity_hash,
    planned_steps,
)
from trm_train.cost import cost_of, parameters_of
from trm_train.errors import ConfigError, ForeignRunError
from trm_train.experiments.registry import Experiment, load_experiments
from trm_train.experiments.setting import OWN, SETTINGS, Setting
from trm_train.extensions import own_code

FORMAT_VERSION = 6
"""Format 2 adds a digest of the record, 3 scale and data, 4 cost and label, 5 the datasets of a mixture, 6 the threads
of a CPU."""
LABEL_CHARACTERS = 200
MOST_RUNS = 20
"""Maximum number of runs named in an error."""
CONFIG_FILE = "config.json"
TRACKING_FILE = "tracking-id"
LOGS = "logs"
"""Names in a run folder."""
NAME = re.compile(r"[A-Za-z0-9_]{1,100}")
"""Valid name of an experiment or group."""


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run's `config.json`: its identity, configuration and dataset digests."""

    experiment: str
    group: str
    run: str
    identity: str
    """sha256 of the effective identity."""
    config: RunConfig
    input_spec: InputSpec
    content_digest: str
    """Digest of the dataset, or of a mixture's datasets; a run cannot resume with other rows."""
    identifiers_digest: str
    created_at: str
    versions: dict[str, str]
    """Of libraries at the newest start, and `code of NAME`, the digest of the user's code, at the first."""
    scale: str = ""
    """Scale of the run's experiment (`experiments/setting.py`); empty in records before format 3."""
    data: str = ""
    """Data of that experiment; empty in records before format 3."""
    parameters: int | None = None
    """Trained parameters without the puzzle embedding, counted at the run's start; None if unknown, and
    in records before format 4."""
    training_flops: float | None = None
    """Operations of all steps of `config`, counted at the run's start (FLOP); None as for `parameters`."""
    evaluation_flops: float | None = None
    """Operations to test one example with all supervision steps, counted at the run's start (FLOP); None
    as for `parameters`."""
    label: str = ""
    """The user's label of the run."""
    mixture: tuple[Component, ...] = ()
    """The datasets of a mixture, with their digests and offsets; empty for one dataset."""
    cpu_threads: int | None = None
    """Threads of XLA at the run's first start; None on other devices, and in records before format 6."""
    extended_to: int | None = None
    """Total steps, if a user extended the run beyond `config.total_steps`."""

    def component(self, dataset: str | None, option: str = "--dataset") -> Component | None:
        """Return a dataset's component of the mixture that the run learns; None if the run learns one dataset."""
        if not self.mixture:
            return None
        names = ", ".join(each.dataset for each in self.mixture)
        if dataset is None:
            raise ConfigError(
                f"{self.run}: learns a mixture ({names}). Name one of its datasets: {option} NAME"
            )
        found = [each for each in self.mixture if first_name(each.dataset) == first_name(dataset)]
        if not found:
            raise ConfigError(
                f"{option} {dataset}: not a dataset of the mixture that {self.run} learns (got {dataset}; expected one "
                f"of {names})"
            )
        return found[0]

    def code_changes(self) -> list[str]:
        """Return a line for each network, mixer or optimizer of the user whose source has changed since the start."""
        return [
            f"{self.run}: the {name} has changed since the run began (got {digest}; the run has {self.versions[name]})"
            ". If its results differ, give what has changed another name, or start over with --resume never"
            for name, digest in _own_code(self.config).items()
            if self.versions.get(name, digest) != digest
        ]

    @property
    def total_flops(self) -> float | None:
        """Operations of all training steps, also of those that it was extended by; None if unknown."""
        flops = self.training_flops
        return None if flops is None else flops * self.total_steps / self.config.total_steps

    @property
    def total_steps(self) -> int:
        """The last step of the run."""
        return planned_steps(self.config, self.extended_to)


def extend_record(record: RunRecord, steps: int | None) -> RunRecord:
    """Return the record of a run extended to `steps` steps in total; None leaves it unchanged."""
    if steps is None:
        return record
    check_extension(record.config, steps)
    if record.extended_to is not None and steps < record.extended_to:
        raise ConfigError(f"--extend: {record.run} was extended to {record.extended_to} already, got {steps}")
    return replace(record, extended_to=steps)


def run_name(experiment: str, config: RunConfig) -> str:
    """Return the name of the run of a configuration."""
    return _name_of(experiment, identity_hash(config), config.seed)


def _name_of(experiment: str, identity: str, seed: int) -> str:
    return f"{experiment}-{identity[:8]}-s{seed}"


def run_folder(layout: Layout, experiment: Experiment, config: RunConfig) -> Folder:
    """Return the folder of the run of a configuration."""
    return layout.runs.within(f"{experiment.group}/{experiment.name}/{run_name(experiment.name, config)}")


def make_record(experiment: Experiment, config: RunConfig, *manifests: Manifest) -> RunRecord:
    """Return the record of a run that starts now on these datasets."""
    mixture = mixture_of(config, manifests)
    setting, spec = experiment.setting(), input_spec(*manifests)
    cost = cost_of(config, spec)
    content = [manifest.content_digest for manifest in manifests]
    identifiers = [manifest.identifiers_digest for manifest in manifests]
    return RunRecord(
        experiment=experiment.name,
        group=experiment.group,
        run=run_name(experiment.name, config),
        identity=identity_hash(config),
        config=config,
        input_spec=spec,
        content_digest=digest_of_all(content) if mixture else content[0],
        identifiers_digest=digest_of_all(identifiers) if mixture else identifiers[0],
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={name: version(name) for name in ("trm-lab", "jax", "flax", "numpy")} | _own_code(config),
        scale=setting.scale,
        data=setting.data,
        parameters=parameters_of(config.model, spec),
        training_flops=None if cost is None else cost.training_flops,
        evaluation_flops=None if cost is None else cost.evaluation_flops,
        mixture=mixture,
    )


def _own_code(config: RunConfig) -> dict[str, str]:
    names = {"networks": config.model.architecture, "optimizers": config.optim.name}
    return own_code(names | {"mixers": getattr(config.model, "mixer", "")})


def mixture_of(config: RunConfig, manifests: Sequence[Manifest]) -> tuple[Component, ...]:
    """Return the components of a mixture, with their token and identifier offsets; () for one dataset."""
    if not config.data.is_mixture:
        return ()
    pairs = zip(config.data.names, manifests, strict=True)
    return place([replace(component_of(manifest), dataset=name) for name, manifest in pairs])


def differences_of(records: Sequence[RunRecord]) -> list[dict[str, Any] | None]:
    """Return how each run differs from its experiment's present definition, by dotted path; None if unknown."""
    experiments = load_experiments()
    defined: dict[tuple[str, Setting], RunConfig] = {}
    known: dict[tuple[str, Setting, str, bool], dict[str, Any]] = {}
    found: list[dict[str, Any] | None] = []
    for record in records:
        item, setting = experiments.get(record.experiment), _setting_of(record, experiments)
        if item is None or setting is None or setting not in item.settings:
            found.append(None)
            continue
        key = record.experiment, setting
        if key not in defined:
            defined[key] = item.make(setting)
        seed = record.config.seed
        alike = (*key, record.identity, seed == defined[key].seed)  # the key omits the value of the seed
        if alike not in known:
            known[alike] = differences(record.config, defined[key])
        found.append(known[alike] | ({"seed": seed} if "seed" in known[alike] else {}))
    return found


def describe_differences(changes: Mapping[str, Any] | None) -> str | None:
    """Format differences as one line, such as `data.dataset=mine6, total_steps=400`; empty if there are none."""
    if changes is None:
        return None
    shown = {key: value[:12] if key.startswith("initial.") else value for key, value in changes.items()}
    return ", ".join(f"{key}={value}" for key, value in shown.items())


def check_label(label: str) -> str:
    """Return the label; raise ConfigError if it is too long or not printable."""
    if not _is_label(label):
        raise ConfigError(
            f"--label: expected up to {LABEL_CHARACTERS} printable characters in one line "
            f"(got {len(label)}: {label[:40]!r}). Give a shorter or plainer label."
        )
    return label


def _is_label(label: str) -> bool:
    return len(label) <= LABEL_CHARACTERS and label.isprintable()


def input_spec(*manifests: Manifest) -> InputSpec:
    """Return the input sizes that a model needs for one dataset or a mixture."""
    spec = spec_of(place([component_of(manifest) for manifest in manifests]))
    grids = [grid_of(manifest.grid_rows, manifest.grid_columns) for manifest in manifests]
    return replace(spec, grid=grids[0] if len(grids) == 1 else None)


def spec_of(placed: Sequence[Component]) -> InputSpec:
    """Return the input sizes that a model needs for placed components."""
    return InputSpec(
        sequence_length=max(each.sequence_length for each in placed),
        vocabulary_size=vocabulary_of(placed),
        num_identifiers=identifiers_of(placed),
    )


def write_record(folder: Folder, record: RunRecord) -> None:
    """Write `config.json`, unless its content is unchanged."""
    written_as = FORMAT_VERSION if record.cpu_threads else 5 if record.mixture else 4
    value = {"format_version": written_as, **asdict(record), "config": config_to_json(record.config)}
    value["input_spec"] = record.input_spec.to_json()
    for name in ("cpu_threads", "extended_to", "mixture"):
        if not value[name]:
            del value[name]
    content = json_bytes(with_digest(value))
    if folder.read(CONFIG_FILE) != content:
        folder.write(CONFIG_FILE, content)


def read_record(folder: Folder) -> RunRecord:
    """Read `config.json` of a run.

    Raises:
        ConfigError: The record is missing, or this version cannot read it.
    """
    found = find_record(folder)
    if found is None:
        raise ConfigError(f"{folder} is not a run folder: {CONFIG_FILE} is missing")
    return found


def find_record(folder: Folder) -> RunRecord | None:
    """Return the record of a run, or None if it does not exist."""
    content = folder.read(CONFIG_FILE)
    return None if content is None else _parse_record(content, folder)


@lru_cache(10_000)
def _parse_record(content: bytes, folder: Folder) -> RunRecord:
    """Parse a `config.json`. Cached, because a root with thousands of runs is read repeatedly."""
    where = folder.where(CONFIG_FILE)
    try:
        value: dict[str, Any] = parse_json(content)
        if (value["format_version"] != 1 or "digest" in value) and with_digest(value) != value:
            raise ConfigError(f"{where}: was edited or damaged (its digest differs). Restore it")
        written_as = value.pop("format_version")
        if written_as > FORMAT_VERSION:
            raise ForeignRunError(
                f"{where}: was written by a newer version of trm-train; upgrade it "
                f"(got format {written_as}; expected up to {FORMAT_VERSION})"
            )
        whole = value.pop("digest", None) is not None
        try:
            value["config"] = config_from_json(value["config"])
        except ConfigError as error:
            if not whole:
                raise
            raise ForeignRunError(
                f"{where}: cannot be read by this version: {error}. Use what wrote it."
            ) from error
        value["input_spec"] = InputSpec.from_json(value["input_spec"])
        value["mixture"] = tuple(Component(**each) for each in value.get("mixture", ()))
        extended_to = value.pop("extended_to", None)
        record = RunRecord(**value)
        _check_record(record, folder, where)
        return extend_record(record, extended_to)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
        raise ConfigError(f"{where}: is not a record of a run ({error})") from error


def _check_record(record: RunRecord, folder: Folder, where: str) -> None:
    """Raise an error if a record is inconsistent, or is in the folder of another run."""
    for what in ("group", "experiment"):
        if not NAME.fullmatch(getattr(record, what)):
            raise ConfigError(
                f"{where}: {what} {getattr(record, what)!r}: expected up to 100 letters, digits and _"
            )
    identity = identity_hash(record.config)
    name = _name_of(record.experiment, identity, record.config.seed)
    if (record.identity, record.run) != (identity, name):
        raise ConfigError(
            f"{where}: names the run {record.run!r}, but its configuration is that of {name}. It was "
            "edited or damaged. Restore it"
        )
    if not _is_label(record.label):
        raise ValueError(f"label {record.label[:40]!r}")
    expected = f"runs/{record.group}/{record.experiment}/{record.run}"
    if folder.path.startswith("runs/") and folder.path != expected:
        raise ConfigError(f"{where}: belongs to the run {record.run} at {expected}. Move it there")


def list_runs(layout: Layout) -> list[Folder]:
    """Return the folders of all runs under a root."""
    return [
        layout.runs.within(name.removesuffix(f"/{CONFIG_FILE}"))
        for name in layout.runs.names(f"*/*/*/{CONFIG_FILE}")
    ]


def read_records(
    layout: Layout, folders: Sequence[Folder] | None = None
) -> list[tuple[Folder, RunRecord | ConfigError]]:
    """Return the records of runs, of all under a root by default; an unreadable one is given as its error."""

    def read(folder: Folder) -> RunRecord | ConfigError:
        try:
            return read_record(folder)
        except ConfigError as error:
            return error

    folders = list_runs(layout) if folders is None else folders
    return list(zip(folders, layout.store.each(read, folders), strict=True))


def find_run(layout: Layout, reference: str, setting: Setting | None = None) -> Folder:
    """Return the folder of a run, given its name, its folder or URL, or its experiment.

    An experiment refers to the run that it defines at its default setting; if that is missing, to its only run.
    An alias refers to the run of the experiment that it is an alias of at that setting.

    Args:
        layout: The root.
        reference: Name, folder, URL or experiment.
        setting: For an experiment, consider only runs at this setting.

    Raises:
        ConfigError: There is no such run, or there are several and none is as the experiment defines it.
    """
    if (folder := folder_on_bucket(reference)) is not None:
        read_record(folder)
        return folder
    path = Path(reference).expanduser()
    if (path / CONFIG_FILE).is_file():
        local = Path(os.path.abspath(path))  # noqa: PTH100  # keep symbolic links
        within = (run for run in list_runs(layout) if run.place == str(local))
        return next(within, Folder(LocalStore(local.parent), local.name))
    runs = list_runs(layout)
    defined = _defined_runs(reference, setting)
    found = (
        [run for run in runs if run.name == reference]
        or [run for run in runs if run.name in defined[:1]]
        or [run for run in runs if run.name in defined]
    )
    if len(found) != 1:
        found = runs_of(runs, reference, setting)
    if len(found) == 1:
        return found[0]
    where = "" if setting is None else f" at {setting}"
    if found:
        usual = f", not {defined[0]}, which the experiment defines" if defined else ""
        names = ", ".join(run.name for run in found[:MOST_RUNS])
        raise ConfigError(
            f"{reference}: has {len(found)} runs{where}{usual}. Name one: {names} (trm-train status {reference} says "
            "how they differ)"
        )
    names = [run.name for run in runs]
    raise ConfigError(
        no_such(
            f"no run {reference!r} under {layout.runs.place}{where}", reference, names, "trm-train status"
        )
    )


def _defined_runs(name: str, setting: Setting | None) -> list[str]:
    """Return the names of the runs that an experiment defines at a setting, or at all its settings, default first."""
    experiments = load_experiments()
    item = experiments.get(name)
    if item is None:
        return []
    of = [
        (experiments[item.alias_of(each) or name], each) for each in item.settings if setting in (None, each)
    ]
    return [run_name(one.name, one.make(each)) for one, each in of]


def runs_of(runs: list[Folder], name: str, setting: Setting | None) -> list[Folder]:
    """Return the runs of an experiment; for an alias, the runs of its target at each setting.

    Runs that this version cannot read are returned only if there are no others.
    """
    item = load_experiments().get(name)
    if item is None:
        return [run for run in runs if _experiment_of(run) == name]
    found: list[Folder] = []
    foreign: list[Folder] = []
    for run in runs:
        if _experiment_of(run) not in {name, *item.aliases.values()}:
            continue
        try:
            record = find_record(run)
        except ForeignRunError:
            foreign += [run] if _experiment_of(run) == name else []
            continue
        of = None if record is None else setting_of(record)
        if record is None or of is None or (setting is not None and of != setting):
            continue
        own = item.alias_of(of) if of in item.settings else None
        if record.experiment == (own or name):
            found.append(run)
    return found or foreign


def _experiment_of(run: Folder) -> str:
    return run.path.split("/")[-2]


def setting_of(record: RunRecord) -> Setting | None:
    """Return the setting of a run; if not recorded, the default of its experiment; None if unknown."""
    return _setting_of(record, load_experiments())


def _setting_of(record: RunRecord, experiments: Mapping[str, Experiment]) -> Setting | None:
    item = experiments.get(record.experiment)
    is_own = item is not None and item.settings == (OWN,)
    for setting in (
        () if is_own else (*SETTINGS, OWN)
    ):  # earlier records of own experiments name one of the study
        if (setting.scale, setting.data) == (record.scale, record.data):
            return setting
    return None if item is None else item.setting()
