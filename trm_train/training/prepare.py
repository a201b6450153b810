"""What a run needs before its first step, short of arrays: `--dry-run` ends here, training goes on from here."""

from __future__ import annotations

from dataclasses import dataclass

from jax.sharding import Mesh

from trm_data.errors import DatasetNotFoundError
from trm_data.manifest import Manifest, read_manifest
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_train.config.run import RunConfig, check_config
from trm_train.errors import ConfigError
from trm_train.experiments.dataset import is_named
from trm_train.experiments.registry import Experiment
from trm_train.mesh.sharding import make_mesh
from trm_train.runs.record import RunRecord, make_record, run_folder
from trm_train.step.compile import use_compilation_cache


@dataclass(frozen=True)
class Prepared:
    """A run that could start.

    Attributes:
        layout: The root.
        config: What it is.
        manifests: Of its datasets, in order; one, but of a mixture.
        mesh: Devices.
        record: Of a run that starts now.
        folder: Where it lies.
    """

    layout: Layout
    config: RunConfig
    manifests: tuple[Manifest, ...]
    mesh: Mesh
    record: RunRecord
    folder: Folder


def prepare(experiment: Experiment, config: RunConfig, layout: Layout) -> Prepared:
    """Check a configuration against its dataset and the devices, and name the run.

    Raises:
        ConfigError: The configuration cannot be run.
        DatasetNotFoundError: Its dataset, or one of a mixture, is not built.
        SpecError: The datasets of a mixture have too many tokens.
    """
    check_config(config)
    use_compilation_cache()
    manifests = tuple(read_manifest(layout, name) for name in config.data.names)
    mesh = make_mesh(config.execution.model_parallel)
    check_batch(config, mesh)
    record = make_record(experiment, config, *manifests)
    return Prepared(layout, config, manifests, mesh, record, run_folder(layout, experiment, config))


def check_batch(config: RunConfig, mesh: Mesh) -> None:
    """Refuse a batch that cannot be spread evenly.

    Raises:
        ConfigError: Says which batch sizes are allowed.
    """
    devices, pieces = mesh.shape["data"], config.execution.micro_batches
    if config.data.global_batch_size % (devices * pieces):
        in_pieces = f" times execution.micro_batches {pieces}" if pieces > 1 else ""
        raise ConfigError(
            f"data.global_batch_size: a multiple of the {devices} devices along the mesh axis data{in_pieces}, "
            f"got {config.data.global_batch_size}"
        )


def check_dataset_is_built(config: RunConfig, layout: Layout) -> None:
    """Refuse to start without the dataset, saying how to build it.

    Raises:
        DatasetNotFoundError: With the command that builds it, where it is a named dataset.
    """
    for name in config.data.names:
        try:
            read_manifest(layout, name)
        except DatasetNotFoundError as error:
            if not is_named(name):
                raise
            raise DatasetNotFoundError(f"{error}, or the same command with --build") from None
