"""Initial weights of a new run (`--init-from`), and published weights.

Published weights are matched to a configuration, imported as a run for evaluation, and exported from a run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from trm_data.errors import DataError
from trm_data.export import identifier_names
from trm_data.manifest import Manifest, read_manifest
from trm_data.storage.atomic import file_sha256, parse_json
from trm_data.storage.lease import leased, locked
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import FOLDER as CHECKPOINTS
from trm_train.checkpoint.manager import restore_weights, weights_steps, write_weights
from trm_train.checkpoint.tree import choose_weights, weights_tree
from trm_train.config.model import BlocksConfig
from trm_train.config.run import InitialConfig, InputSpec, RunConfig, check_config
from trm_train.errors import CheckpointError, ConfigError
from trm_train.experiments.registry import Experiment
from trm_train.hosts import Hosts
from trm_train.model.base import table_rows
from trm_train.model.published import (
    has_published_names,
    published_problems,
    weights_from_published,
    weights_to_published,
)
from trm_train.runs.record import RunRecord, find_record, find_run, input_spec, read_record, write_record
from trm_train.runs.resume import check_same_run, meta_at
from trm_train.runs.status import STATUS_FILE, Status, status_bytes
from trm_train.state import Weights, abstract_weights
from trm_train.training.prepare import prepare
from trm_train.weights import check_output, is_weights_file, read_weights, write_weights_file


@dataclass(frozen=True)
class Initial:
    """Weights to start from.

    Attributes:
        weights: As numpy arrays, for the dataset's identifiers.
        note: Message for the user: source of the weights, and which embedding rows are new.
    """

    weights: Weights
    note: str


def start_from(
    reference: str, config: RunConfig, layout: Layout, hosts: Hosts | None = None
) -> tuple[RunConfig, Initial]:
    """Return the initial weights that a reference names, and the configuration with their digest.

    Args:
        reference: `RUN`, `RUN@STEP`, or a file of published weights.
        config: The experiment's configuration with all overrides.
        layout: The root with the dataset and the run.
        hosts: All processes of the new run, or None if there is only one.
    """
    manifest = read_manifest(layout, config.data.only_dataset("--init-from"))
    if is_weights_file(reference):
        weights = read_published(Path(reference).expanduser(), config, input_spec(manifest))
        source, same, old = reference, manifest.num_identifiers == 1, list[str]()
    else:
        if hosts is not None and hosts.count > 1:
            raise ConfigError(
                f"--init-from {reference}: several processes start from a file only. Write it: "
                f"trm-train export-weights {reference} --out weights.safetensors"
            )
        folder, step = find_saved(layout, reference)
        record, step, weights = saved_weights(folder, step)
        _check_shapes(reference, weights, config, manifest)
        source = f"{record.run} at step {step:,}"
        same = record.identifiers_digest == manifest.identifiers_digest
        old = _names_of_run(layout, record)
    weights, note = _for_dataset(weights, old, manifest, layout, same=same)
    digest = weights_digest(weights)
    note = f"starts from the weights of {source} (digest {digest[:12]}){note}"
    weights = replace(weights, puzzle_table=padded(weights.puzzle_table))
    return replace(config, initial=InitialConfig(weights=digest)), Initial(weights, note)


def weights_digest(weights: Weights) -> str:
    """Return the sha256 of the names, shapes and values of all arrays."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(weights):
        array = np.asarray(leaf, np.float32)
        digest.update(f"{jax.tree_util.keystr(path, simple=True, separator='.')} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _for_dataset(
    weights: Weights, old: list[str], manifest: Manifest, layout: Layout, *, same: bool
) -> tuple[Weights, str]:
    """Return weights with one embedding row per identifier of the dataset, and a note about new rows."""
    rows = weights.puzzle_table
    if rows is None:
        return weights, ""
    if same:
        return replace(weights, puzzle_table=rows[: manifest.num_identifiers]), ""
    table, kept = rows_by_name(rows, old, identifier_names(layout.dataset(manifest.name), manifest))
    note = (
        f"; {len(table) - kept:,} of {len(table):,} embedding rows are new and start at the mean of the {len(rows):,} "
        "old ones"
    )
    return replace(weights, puzzle_table=table), note


def _names_of_run(layout: Layout, record: RunRecord) -> list[str]:
    """Return the names of a run's identifiers from its training dataset, or [] if that dataset no longer exists."""
    try:
        manifest = read_manifest(layout, record.config.data.only_dataset())
        if manifest.identifiers_digest == record.identifiers_digest:
            return identifier_names(layout.dataset(manifest.name), manifest)
    except (DataError, ConfigError):
        pass
    return []


def _check_shapes(reference: str, weights: Weights, config: RunConfig, manifest: Manifest) -> None:
    """Raise CheckpointError if the weights do not fit the network; the message lists every difference."""
    _, shapes = abstract_weights(config, input_spec(manifest))
    wanted, found = _shapes(shapes), _shapes(weights)
    problems = [f"missing: {name}" for name in sorted(wanted.keys() - found.keys())]
    problems += [f"unknown: {name}" for name in sorted(found.keys() - wanted.keys())]
    problems += [
        f"{name}: shape {found[name]}; expected {wanted[name]}"
        for name in sorted(wanted.keys() & found.keys())
        if found[name] != wanted[name]
    ]
    if problems:
        raise CheckpointError(
            "\n  ".join(
                [
                    f"--init-from {reference}: the weights do not fit the network on {manifest.name}:",
                    *problems,
                ]
            )
        )


def _shapes(weights: Weights) -> dict[str, tuple[Any, ...]]:
    """Return the shape of every array by name; for the puzzle table, only the width."""
    named = {
        jax.tree_util.keystr(path, simple=True, separator="."): tuple(leaf.shape)
        for path, leaf in jax.tree_util.tree_leaves_with_path(weights)
    }
    return {name: ("rows", *shape[1:]) if name == "puzzle_table" else shape for name, shape in named.items()}


IMPORTED_STEP = 0
"""Step of an imported run's checkpoint: no training step was taken here."""
LARGEST_NAMES_BYTES = 1 << 28


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Result of an import.

    Attributes:
        run: Name of the run.
        folder: Its folder.
        sha256: Digest of the file.
        dataset: Dataset that the run is evaluated on.
        identifiers: Number of identifiers of the dataset; 1 means only the blank one.
        matched: Number of identifiers that have a row in the file.
        rows: Number of embedding rows in the file.
        unchanged: Whether the run already existed.
    """

    run: str
    folder: str
    sha256: str
    dataset: str
    identifiers: int
    matched: int
    rows: int
    unchanged: bool


def published_model(config: RunConfig) -> BlocksConfig:
    """Return the network of a configuration; raise ConfigError if the published code does not have this network."""
    model = config.model
    if isinstance(model, BlocksConfig) and has_published_names(model):
        return model
    raise ConfigError(
        f"model.architecture: {model.architecture} with these options has no published names. "
        "Write its run for others: trm-eval export."
    )


def read_published(path: Path, config: RunConfig, spec: InputSpec) -> Weights:
    """Read the weights of a file; the puzzle table has the rows of the file, without padding."""
    model = published_model(config)
    tensors = read_weights(path)
    _, shapes = abstract_weights(config, spec)
    if problems := published_problems(model, shapes.params, shapes.fixed, tensors):
        raise CheckpointError(
            "\n  ".join(
                [
                    f"{path}: does not fit the network ({model.architecture}, hidden_size {model.hidden_size}, "
                    f"{model.num_layers} layers, {model.mixer}) on {'+'.join(config.data.names)} "
                    f"({spec.sequence_length} cells, {spec.vocabulary_size} tokens):",
                    *problems,
                    "Give the options of the network (--model.hidden-size N, ...) and the dataset that the weights "
                    "were trained on.",
                ]
            )
        )
    rows = next((len(array) for name, array in tensors.items() if name.endswith("puzzle_emb.weights")), 1)
    own = replace(spec, num_identifiers=rows)
    params, fixed, table = weights_from_published(model, own, tensors)
    return Weights(params, fixed, None if table is None else table[:rows])


def rows_by_name(
    rows: NDArray[np.float32], old: Sequence[str], new: Sequence[str]
) -> tuple[NDArray[np.float32], int]:
    """Return embedding rows for the identifiers of a dataset, and how many of them are old rows.

    An identifier takes the old row with the same name (names like `<1>` never match). Identifier 0 (the blank one)
    takes row 0. Any other identifier takes the mean of all rows.

    Args:
        rows: Float32 [R, N].
        old: Names of the rows; empty if unknown.
        new: Names of the dataset's identifiers.
    """
    places = {name: row for row, name in enumerate(old) if not name.startswith("<")} | {new[0]: 0}
    found = np.array([places.get(name, -1) for name in new])
    table = rows[found]
    table[found < 0] = rows.mean(axis=0, dtype=np.float64)
    return table, int(np.sum(found >= 0))


def padded(rows: NDArray[np.float32] | None) -> NDArray[np.float32] | None:
    """Append the padding rows to a puzzle table."""
    if rows is None:
        return None
    return np.pad(rows, ((0, table_rows(len(rows)) - len(rows)), (0, 0)))


def import_weights(
    path: Path, experiment: Experiment, config: RunConfig, layout: Layout, identifiers: Path | None = None
) -> Imported:
    """Write a run that holds the weights of a file; `config.json` is written last.

    Args:
        path: The file.
        experiment: Experiment that names the run.
        config: The experiment's configuration with all overrides.
        layout: The root.
        identifiers: Published `identifiers.json`, with the names of the embedding rows.

    Raises:
        ConfigError: The configuration cannot be run, or the names of the rows are missing.
        CheckpointError: The weights do not fit, or the checkpoint cannot be written.
        DatasetNotFoundError: The dataset is not built.
        BusyError: Another process is writing the run.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    sha256 = file_sha256(path)
    check_config(config)
    manifest = read_manifest(layout, config.data.only_dataset("import-weights"))
    named = identifiers if manifest.num_identifiers > 1 else None
    if named is not None and not named.is_file():
        raise ConfigError(f"--identifiers {named}: no such file")
    initial = InitialConfig(imported=sha256, identifiers="" if named is None else file_sha256(named))
    prepared = prepare(experiment, replace(config, initial=initial), layout)
    record, target = prepared.record, prepared.folder
    weights = read_published(path, record.config, record.input_spec)
    rows, matched = weights.puzzle_table, 0
    if rows is not None:
        old = _names_of_rows(named, rows, manifest.num_identifiers)
        new = identifier_names(layout.dataset(manifest.name), manifest)
        found, matched = rows_by_name(rows, old, new)
        if manifest.num_identifiers > 1 and matched < 2:
            raise ConfigError(
                f"--identifiers {named}: no name is one of dataset {manifest.name} (got {old[1]!r}, ...; expected "
                f"{new[1]!r}, ...). Import the dataset that the weights were trained on: trm-data import."
            )
        weights = replace(weights, puzzle_table=padded(found))
    unchanged = _write_run(target, record, weights)
    return Imported(
        run=record.run,
        folder=target.place,
        sha256=sha256,
        dataset=manifest.name,
        identifiers=manifest.num_identifiers,
        matched=matched,
        rows=0 if rows is None else len(rows),
        unchanged=unchanged,
    )


def _names_of_rows(path: Path | None, rows: NDArray[np.float32], count: int) -> list[str]:
    """Read the names from an `identifiers.json`; return [] if the dataset has only the blank identifier."""
    if count == 1:
        return []
    if path is None:
        raise ConfigError(
            f"--identifiers: needed, because the dataset has {count:,} identifiers and the file has {len(rows):,} "
            "embedding rows without names. Give the identifiers.json of the dataset that the weights were trained on."
        )
    try:
        if path.stat().st_size > LARGEST_NAMES_BYTES:
            raise ValueError(f"more than {LARGEST_NAMES_BYTES:,} bytes")
        names: Any = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"--identifiers {path}: cannot be read ({error})") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"--identifiers {path}: expected a JSON list of names, by identifier")
    if len(names) != len(rows):
        raise ConfigError(
            f"--identifiers {path}: {len(names):,} names for the {len(rows):,} embedding rows of the file. Give the "
            "identifiers.json of the dataset that the weights were trained on."
        )
    return names


def _write_run(target: Folder, record: RunRecord, weights: Weights) -> bool:
    """Write an imported run; return True if it already existed."""
    with (
        locked(target, f"{record.run}: is being written by another process; wait for it"),
        leased(target, f"run {record.run}"),
    ):
        there = find_record(target)
        if there is not None:
            if (there.content_digest, weights_steps(target)) == (record.content_digest, [IMPORTED_STEP]):
                return True
            raise ConfigError(
                f"{target}: a run with this name exists, with other rows or without weights. Remove the folder first."
            )
        target.store.delete_folder(f"{target.path}/{CHECKPOINTS}")  # left by an interrupted import
        tree = weights_tree(jax.device_put(weights))
        write_weights(target, tree, meta_at(record, IMPORTED_STEP))
        target.write(STATUS_FILE, status_bytes(_status(record)))
        write_record(target, record)
    return False


def _status(record: RunRecord) -> Status:
    """Return the status of a finished run."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Status(
        state="finished",
        step=IMPORTED_STEP,
        total_steps=record.total_steps,
        examples_per_s=0.0,
        loss=None,
        heartbeat=now,
        seconds=0.0,
        compile_s=0.0,
        host="",
        process=0,
        started_at=now,
    )


def find_saved(layout: Layout, reference: str) -> tuple[Folder, int | None]:
    """Return the run folder, and the step if given, for `RUN` or `RUN@STEP`."""
    name, at, step = reference.rpartition("@")
    if at and step.isdecimal():
        return find_run(layout, name), int(step)
    return find_run(layout, reference), None


def saved_weights(run: Folder, step: int | None) -> tuple[RunRecord, int, Weights]:
    """Return record, step and averaged weights (numpy arrays) of a run at a step (default: the newest)."""
    record, steps = read_record(run), weights_steps(run)
    if not steps:
        raise CheckpointError(f"{run.name}: has no checkpoint yet")
    step = steps[-1] if step is None else step
    _, shapes = abstract_weights(record.config, record.input_spec)
    tree, meta = restore_weights(run, step, weights_tree(shapes))
    check_same_run(record, meta, run.place)
    weights = jax.device_get(choose_weights(tree, "ema"))
    rows = weights.puzzle_table
    return (
        record,
        step,
        replace(weights, puzzle_table=None if rows is None else rows[: record.input_spec.num_identifiers]),
    )


@dataclass(frozen=True, kw_only=True)
class Exported:
    """Result of an export.

    Attributes:
        run: Name of the run.
        step: Training step of its weights.
        file: Path of the file.
        tensors: Number of tensors.
        sha256: Digest of the file.
        dataset: Dataset whose identifiers the embedding rows belong to.
        identifiers: Number of identifiers.
    """

    run: str
    step: int
    file: str
    tensors: int
    sha256: str
    dataset: str
    identifiers: int


def export_weights(run: Folder, step: int | None, out: Path) -> Exported:
    """Write the averaged weights of a run with the published tensor names.

    Raises:
        ConfigError: The file cannot be written, or the network has no published names.
        CheckpointError: There is no such checkpoint, it is damaged, or the file could not be written.
    """
    check_output(out)
    published_model(read_record(run).config)
    record, step, weights = saved_weights(run, step)
    model = published_model(record.config)
    tensors: Mapping[str, NDArray[np.float32]] = weights_to_published(
        model, record.input_spec, weights.params, weights.fixed, weights.puzzle_table
    )
    write_weights_file(out, tensors)
    return Exported(
        run=record.run,
        step=step,
        file=str(out),
        tensors=len(tensors),
        sha256=file_sha256(out),
        dataset=record.config.data.label,
        identifiers=record.input_spec.num_identifiers,
    )
