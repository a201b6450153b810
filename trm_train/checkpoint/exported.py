"""Weights of a run in one safetensors file beside its `config.json`, as `trm-eval export` writes them.

Arrays are float32 and have the names of `weights_tree`: `params.<path>`, `ema.<path>`, `fixed.<path>`,
`puzzle_table.rows`.
The metadata of the file has the meta of the checkpoint under `checkpoint`, as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from trm_data.storage.atomic import parse_json
from trm_data.storage.store import Folder
from trm_train.errors import CheckpointError
from trm_train.weights.files import read_metadata, read_safetensors, write_safetensors

FILE = "model.safetensors"
EARLIER = "package.json"
"""File of the packages that version 0.1 wrote."""
CHECKPOINT = "checkpoint"


def write_exported(path: Path, tree: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
    """Write the arrays of a `weights_tree`, and the meta of their checkpoint."""
    write_safetensors(path, _flat(tree), {CHECKPOINT: json.dumps(meta, sort_keys=True)})


def exported_file(run: Folder) -> Path | None:
    """Return the file with the weights of an exported run; None if there is none."""
    path = run.current(FILE)
    if path is None and run.current(EARLIER) is not None:
        raise CheckpointError(
            f"{run}: a package of version 0.1 ({EARLIER}). Import its weights: trm-train import-weights "
            f"{run.where('weights.npz')} --as EXPERIMENT --dataset NAME, or export the run again."
        )
    return path


def read_meta(path: Path) -> dict[str, Any]:
    """Return the meta of the exported checkpoint, not yet verified."""
    try:
        meta = dict(parse_json(read_metadata(path)[CHECKPOINT].encode()))
        if type(meta["step"]) is not int:
            raise ValueError(f"step {str(meta['step'])[:40]!r}")
        return meta
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path}: not weights of trm-eval export ({type(error).__name__}: {error}). For other files: "
            "trm-train import-weights."
        ) from error


def read_exported(path: Path, like: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays as a tree with the names, shapes, types and shardings of `like`."""
    arrays = read_safetensors(path)
    expected = _flat(like)
    found = {name: array.shape for name, array in arrays.items()}
    wanted = {name: tuple(leaf.shape) for name, leaf in expected.items()}
    if found != wanted:
        name = min(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
        raise CheckpointError(
            f"{path}: does not fit config.json: {name} has shape {found.get(name)} (expected {wanted.get(name)}). "
            "Get the folder again."
        )
    tree: dict[str, Any] = {name: {} for name in like}
    for name, leaf in expected.items():
        *parents, last = name.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = _placed(np.asarray(arrays[name], leaf.dtype), getattr(leaf, "sharding", None))
    return tree


def _placed(array: np.ndarray, sharding: jax.sharding.Sharding | None) -> jax.Array:
    """Return an array on the devices; each process gives its own shards."""
    if sharding is None:
        return jax.device_put(array)
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def _flat(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return the leaves by dotted name."""
    found: dict[str, Any] = {}
    for name, node in tree.items():
        found |= _flat(node, f"{above}{name}.") if isinstance(node, Mapping) else {f"{above}{name}": node}
    return found
