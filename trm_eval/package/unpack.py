"""Imports a package as a run: `trm-eval import`. Its content is untrusted data.

The weights become a checkpoint, and the training metrics a part of the run's metrics. The evaluations stay in the
package, because the tables of a root contain only local measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import jax
import pyarrow as pa
import pyarrow.parquet as pq

from trm_data.errors import SourceError
from trm_data.sources.unpack import read_parquet
from trm_data.storage.atomic import json_bytes, with_digest
from trm_data.storage.lease import leased, locked
from trm_data.storage.local import LocalStore
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.errors import PackageError
from trm_eval.package.contents import CARD, METRICS, RAW, WEIGHTS, Package, packed_file, read_package
from trm_eval.package.weights import Tree, largest_bytes, read_arrays, tree_of
from trm_train.checkpoint.manager import FOLDER as CHECKPOINTS
from trm_train.checkpoint.manager import (
    CheckpointMeta,
    fingerprints,
    restore_weights,
    weights_steps,
    write_weights,
)
from trm_train.checkpoint.tree import weights_tree
from trm_train.config.run import check_config
from trm_train.errors import ConfigError
from trm_train.metrics.table import FOLDER as METRICS_FOLDER
from trm_train.metrics.table import SCHEMA, SUM_OF, Part, of_today, write_part
from trm_train.runs.record import RunRecord, find_record, read_record, write_record
from trm_train.runs.status import STATUS_FILE
from trm_train.state import abstract_weights

MOST_METRIC_ROWS = 1 << 20


@dataclass(frozen=True)
class Unpacked:
    """Result of importing a package.

    Attributes:
        run: Name of the run.
        step: Training step of its weights.
        folder: The run's folder.
        digest: Digest of the package.
        unchanged: Whether the run already existed.
        card_edited: Whether the card was edited after packing.
        datasets: Names of the run's training datasets.
    """

    run: str
    step: int
    folder: str
    digest: str
    unchanged: bool
    card_edited: bool
    datasets: tuple[str, ...]


def unpack_run(folder: Path, layout: Layout) -> Unpacked:
    """Write the run of a package under a root, `config.json` last, so that a partial import is not taken for a run.

    Args:
        folder: Folder of the package.
        layout: The root.

    Raises:
        PackageError: The package is damaged or was edited, or the root has another run of this name.
        ConfigError: This version cannot read the configuration.
        BusyError: Another process is writing the run.
        CheckpointError: The checkpoint could not be written.
    """
    package = read_package(folder)
    record = read_record(Folder(LocalStore(folder.absolute().parent), folder.absolute().name))
    try:
        check_config(record.config)
    except ConfigError as error:
        raise PackageError(f"{folder}: its configuration cannot be run ({error})") from error
    if record.run != package.run:
        raise PackageError(f"{folder}: is of the run {package.run!r}, its configuration of {record.run}")
    tree = _read_weights(folder, package, record)
    metrics = _read_metrics(folder, package)
    target = layout.runs.within(f"{record.group}/{record.experiment}/{record.run}")
    with (
        locked(target, f"{record.run}: is being written at {layout.place}; wait for it"),
        leased(target, f"run {record.run}"),
    ):
        unchanged = _is_there(target, package, record)
        if not unchanged:
            for part in (CHECKPOINTS, METRICS_FOLDER):  # left by an interrupted import
                target.store.delete_folder(f"{target.path}/{part}")
            write_weights(target, tree, _meta(package, record))
            if metrics is not None:
                write_part(target, metrics)
            target.write(STATUS_FILE, _status(package, record))
            write_record(target, record)
    card = folder / CARD
    edited = not card.is_file() or packed_file(card).sha256 != package.card_sha256
    return Unpacked(
        record.run,
        package.step,
        target.place,
        package.digest,
        unchanged,
        edited,
        record.config.data.names,
    )


def _read_weights(folder: Path, package: Package, record: RunRecord) -> Tree:
    """Return the weights as a tree on the device, verified against the packed checkpoint."""
    _, weights = abstract_weights(record.config, record.input_spec)
    like = weights_tree(weights)
    limit = largest_bytes(like)
    files = {name: read_arrays(folder / name, limit) for name in (WEIGHTS, RAW)}
    tree = jax.device_put(tree_of(record, files, like))
    if fingerprints(tree) != package.fingerprints:
        raise PackageError(
            f"{folder}: the weights are not those that were packed (their fingerprints differ)"
        )
    return tree


def _read_metrics(folder: Path, package: Package) -> Part | None:
    """Return the training metrics as one part; None if there are none."""
    path = folder / METRICS
    if METRICS not in package.files:
        return None
    try:
        with pq.ParquetFile(path) as file:
            if file.metadata.num_rows > MOST_METRIC_ROWS:
                raise ValueError(f"{file.metadata.num_rows:,} rows; expected up to {MOST_METRIC_ROWS:,}")
            known = [name for name in file.schema_arrow.names if SUM_OF.get(name, name) in SCHEMA.names]
        rows = of_today(read_parquet(path, known, str(path))).to_pylist()
        for row in rows:
            if row["split"] not in ("train", "validation") or type(row["step"]) is not int or row["step"] < 0:
                raise ValueError(f"a row of split {row['split']!r} and step {row['step']!r}")
    except (pa.ArrowException, SourceError, ValueError, KeyError, OSError) as error:
        raise PackageError(f"{path}: holds no training metrics ({error})") from error
    last = max((row["step"] for row in rows), default=0)
    return Part(1, last, rows) if rows else None


def _is_there(target: Folder, package: Package, record: RunRecord) -> bool:
    """Return whether the root already has this run with the same weights; raise PackageError for a conflict."""
    try:
        there = find_record(target)
    except ConfigError as error:
        raise PackageError(f"{error}; it is not overwritten. Remove it first") from error
    if there is None:
        return False
    way = f"nothing is written over it: choose another root, or remove it (trm-train rm {record.run})"
    if (there.identity, there.content_digest) != (record.identity, record.content_digest):
        raise PackageError(f"{target}: is another run with this name; {way}")
    if package.step not in weights_steps(target):
        raise PackageError(f"{target}: is this run without weights of step {package.step:,}; {way}")
    _, weights = abstract_weights(there.config, there.input_spec)
    tree, _ = restore_weights(target, package.step, weights_tree(weights))
    if fingerprints(tree) != package.fingerprints:
        raise PackageError(f"{target}: is this run with other weights of step {package.step:,}; {way}")
    return True


def _meta(package: Package, record: RunRecord) -> CheckpointMeta:
    return CheckpointMeta(
        step=package.step,
        identity=record.identity,
        content_digest=record.content_digest,
        identifiers_digest=record.identifiers_digest,
        tracking_id="",
        run=record.run,
    )


def _status(package: Package, record: RunRecord) -> bytes:
    """Return the status of a finished run, so that `trm-train run` reports that there is nothing to resume."""
    training = package.training
    now = datetime.now(UTC).isoformat(timespec="seconds")
    status = {
        "state": "finished",
        "step": package.step,
        "total_steps": record.total_steps,
        "examples_per_s": 0.0 if training is None else training.examples_per_s,
        "loss": None,
        "heartbeat": now if training is None else training.ended_at,
        "seconds": 0.0 if training is None else training.seconds,
        "compile_s": 0.0 if training is None else training.compile_s,
        "host": "",
        "process": 0,
        "started_at": record.created_at,
        "exact_accuracy": None if training is None else training.exact_accuracy,
    }
    return json_bytes(with_digest(status))
