"""What a run is called, where it lies, and its `config.json`.

A run's name is `<experiment>-<hash8>-s<seed>`: no random words, so the same command finds its own checkpoints.
`<root>/runs/<group>/<experiment>/<run>/` holds config.json, checkpoints/ and metrics/.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from trm_data.manifest import Manifest
from trm_data.storage.atomic import write_json
from trm_data.storage.root import Layout
from trm_train.config.run import InputSpec, RunConfig, config_from_json, config_to_json, identity_hash
from trm_train.errors import ConfigError
from trm_train.experiments.registry import Experiment

FORMAT_VERSION = 1
CONFIG_FILE = "config.json"
RUN_NAME = re.compile(r"[A-Za-z0-9_]+-[0-9a-f]{8}-s[0-9]+")


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run's `config.json`: what it is, and on which rows it learns."""

    experiment: str
    group: str
    run: str
    identity: str
    """sha256 over the effective identity."""
    config: RunConfig
    input_spec: InputSpec
    content_digest: str
    """Of the dataset; a run never goes on with other rows."""
    identifiers_digest: str
    created_at: str
    versions: dict[str, str]


def run_name(experiment: str, config: RunConfig) -> str:
    """Name of the run of a configuration."""
    return f"{experiment}-{identity_hash(config)[:8]}-s{config.seed}"


def run_folder(layout: Layout, experiment: Experiment, config: RunConfig) -> Path:
    """Folder of the run of a configuration."""
    return layout.machine / "runs" / experiment.group / experiment.name / run_name(experiment.name, config)


def make_record(experiment: Experiment, config: RunConfig, manifest: Manifest) -> RunRecord:
    """The record of a run that starts now."""
    return RunRecord(
        experiment=experiment.name,
        group=experiment.group,
        run=run_name(experiment.name, config),
        identity=identity_hash(config),
        config=config,
        input_spec=input_spec(manifest),
        content_digest=manifest.content_digest,
        identifiers_digest=manifest.identifiers_digest,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={name: version(name) for name in ("trm-lab", "jax", "flax", "numpy")},
    )


def input_spec(manifest: Manifest) -> InputSpec:
    """What a model must know of a dataset."""
    return InputSpec(
        sequence_length=manifest.sequence_length,
        vocabulary_size=manifest.vocabulary_size,
        num_identifiers=manifest.num_identifiers,
    )


def write_record(folder: Path, record: RunRecord) -> None:
    """Write `config.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    value = {"format_version": FORMAT_VERSION, **asdict(record), "config": config_to_json(record.config)}
    write_json(folder / CONFIG_FILE, value)


def read_record(folder: Path) -> RunRecord:
    """Read `config.json` of a run.

    Raises:
        ConfigError: There is none, or one that this version cannot read.
    """
    path = folder / CONFIG_FILE
    try:
        value: dict[str, Any] = json.loads(path.read_text())
        if value.pop("format_version") > FORMAT_VERSION:
            raise ConfigError(f"{path}: was written by a newer version of trm-train; upgrade it")
        value["config"] = config_from_json(value["config"])
        value["input_spec"] = InputSpec(**value["input_spec"])
        return RunRecord(**value)
    except FileNotFoundError:
        raise ConfigError(f"{folder}: is no run (it has no {CONFIG_FILE})") from None
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"{path}: is no record of a run ({error})") from error


def list_runs(layout: Layout) -> list[Path]:
    """Folders of all runs under a root."""
    return sorted(path.parent for path in (layout.machine / "runs").glob(f"*/*/*/{CONFIG_FILE}"))


def find_run(layout: Layout, reference: str) -> Path:
    """The folder of a run, by its name, by its folder, or by its experiment if that has one run.

    Raises:
        ConfigError: There is none, or there are several.
    """
    as_folder = Path(reference).expanduser()
    if (as_folder / CONFIG_FILE).is_file():
        return as_folder.absolute()
    runs = list_runs(layout)
    found = [run for run in runs if run.name == reference] or [
        run for run in runs if run.parent.name == reference
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{reference} has several runs: {', '.join(run.name for run in found)}; name one")
    have = f"there are: {', '.join(run.name for run in runs)}" if runs else "there are none yet"
    raise ConfigError(f"no run {reference!r} under {layout.runs.place} ({have})")
