"""All checks before the first step that need no arrays. `--dry-run` stops here; training continues from here."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

from jax.sharding import Mesh

import trm_data
import trm_train
from trm_data.errors import DatasetNotFoundError
from trm_data.manifest import Manifest, read_manifest
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_train.config.run import RunConfig, check_config, config_to_json, leaves
from trm_train.errors import ConfigError
from trm_train.experiments.dataset import is_named
from trm_train.experiments.registry import Experiment
from trm_train.mesh import cpu_threads, make_mesh
from trm_train.runs.record import RunRecord, make_record, run_folder
from trm_train.step.compile import use_compilation_cache


@dataclass(frozen=True)
class Prepared:
    """A checked run that can start.

    Attributes:
        layout: The root.
        config: Configuration of the run.
        manifests: Manifests of its datasets, in order; more than one only for a mixture.
        mesh: Mesh of the devices.
        record: Record of a run that starts now.
        folder: Folder of the run.
    """

    layout: Layout
    config: RunConfig
    manifests: tuple[Manifest, ...]
    mesh: Mesh
    record: RunRecord
    folder: Folder


def prepare(
    experiment: Experiment, config: RunConfig, layout: Layout, devices: Sequence[Any] | None = None
) -> Prepared:
    """Check a configuration against its dataset and the devices (default: the local devices), and name the run."""
    check_config(config)
    use_compilation_cache()
    manifests = tuple(read_manifest(layout, name) for name in config.data.names)
    mesh = make_mesh(config.execution.model_parallel, devices)
    check_batch(config, mesh)
    record = replace(make_record(experiment, config, *manifests), cpu_threads=cpu_threads(mesh))
    return Prepared(layout, config, manifests, mesh, record, run_folder(layout, experiment, config))


def check_batch(config: RunConfig, mesh: Mesh) -> None:
    """Raise ConfigError if the batch cannot be divided evenly among devices and microbatches."""
    devices, pieces = mesh.shape["data"], config.execution.micro_batches
    pieces = 1 if pieces == "auto" else pieces
    if config.data.global_batch_size % (devices * pieces):
        in_pieces = f" times execution.micro_batches {pieces}" if pieces > 1 else ""
        raise ConfigError(
            f"data.global_batch_size: a multiple of the {devices} devices along the mesh axis data{in_pieces}, "
            f"got {config.data.global_batch_size}"
        )


def check_dataset_is_built(config: RunConfig, layout: Layout, advice: str = "") -> None:
    """Raise DatasetNotFoundError if a dataset is not built; the message says how to build it.

    Args:
        advice: Another way to build a dataset whose name says all.
    """
    for name in config.data.names:
        try:
            read_manifest(layout, name)
        except DatasetNotFoundError as error:
            if not advice or not is_named(name):
                raise
            raise DatasetNotFoundError(f"{error}, or {advice}") from None


LIBRARIES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def training_facts(record: RunRecord, *, resume: bool, extend: int | None) -> dict[str, Any]:
    """Return what this process would train, and with which versions, as plain JSON values by name.

    Args:
        record: Record of a run that starts now.
        resume: Whether to resume the existing run.
        extend: Total number of steps that the user asks for.
    """
    return {
        "experiment": record.experiment,
        **dict(leaves(config_to_json(record.config))),
        "--resume never": not resume,
        "--extend": extend,
        "dataset content digest": record.content_digest,
        "dataset identifiers digest": record.identifiers_digest,
        "code of trm_data and trm_train": code_digest(trm_data, trm_train),
        **record.versions,
        **library_versions(),
    }


def library_versions() -> dict[str, str]:
    """Return the versions, by name, of Python and of the libraries that affect numerical results."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def code_digest(*packages: ModuleType) -> str:
    """Return the first 16 digits of the sha256 over the source files of packages, file names included."""
    digest = hashlib.sha256()
    for package in packages:
        folder = Path(package.__path__[0])
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{package.__name__}/{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]
