"""Initial weights of a new run, from another run or a file (`--init-from`)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from trm_data.errors import DataError
from trm_data.export import identifier_names
from trm_data.manifest import Manifest, read_manifest
from trm_data.storage.root import Layout
from trm_train.config.run import InitialConfig, RunConfig
from trm_train.errors import CheckpointError, ConfigError
from trm_train.hosts.coordination import Hosts
from trm_train.runs.record import RunRecord, input_spec
from trm_train.state import Weights, abstract_weights
from trm_train.training.published import find_saved, padded, read_published, rows_by_name, saved_weights
from trm_train.weights.files import is_weights_file


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
