"""Converts weights to plain arrays by name, and back: float32, in `.npz` files that numpy reads without pickle.

The Tiny Recursive Model uses the names and layouts of the published code (`model/published.py`). Other networks use
the names of their tree: `params.<path>`, `fixed.<path>`, `puzzle_table`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_eval.errors import PackageError
from trm_eval.package.contents import RAW, WEIGHTS
from trm_train.config.model import BlocksConfig
from trm_train.errors import CheckpointError
from trm_train.model.base import table_rows
from trm_train.model.published import (
    has_published_names,
    parameter_names,
    params_from_published,
    params_to_published,
    weights_from_published,
    weights_to_published,
)
from trm_train.runs.record import RunRecord
from trm_train.weights.files import read_npz

Arrays = dict[str, NDArray[np.float32]]
Tree = dict[str, Any]

TABLE = "puzzle_table"


def arrays_of(record: RunRecord, tree: Tree) -> dict[str, Arrays]:
    """Return the arrays of a tree of weights (`checkpoint.tree.weights_tree`), by file and name."""
    model, spec = record.config.model, record.input_spec
    table = tree["puzzle_table"].get("rows")
    if isinstance(model, BlocksConfig) and has_published_names(model):
        weights = weights_to_published(model, spec, tree["ema"], tree["fixed"], table)
        return {WEIGHTS: weights, RAW: params_to_published(model, tree["params"])}
    weights = _flat("params", tree["ema"]) | _flat("fixed", tree["fixed"])
    if table is not None:
        weights[TABLE] = np.asarray(table)[: spec.num_identifiers]
    return {WEIGHTS: weights, RAW: _flat("params", tree["params"])}


def tree_of(record: RunRecord, files: Mapping[str, Arrays], like: Tree) -> Tree:
    """Inverse of `arrays_of`.

    Args:
        record: Record of the run.
        files: Arrays by file and name.
        like: Tree of the expected shapes.
    """
    model, spec = record.config.model, record.input_spec
    weights, raw = files[WEIGHTS], files[RAW]
    try:
        if isinstance(model, BlocksConfig) and has_published_names(model):
            ema, fixed, table = weights_from_published(model, spec, weights)
            params = params_from_published(model, raw)
            _check_names(RAW, set(raw), {name for name, _, _ in parameter_names(model)})
        else:
            named = [*_flat_names("params", like["ema"]), *_flat_names("fixed", like["fixed"])]
            _check_names(WEIGHTS, set(weights), {*named, *([TABLE] if like["puzzle_table"] else [])})
            _check_names(RAW, set(raw), set(_flat_names("params", like["params"])))
            ema, params = _nested("params", like["ema"], weights), _nested("params", like["params"], raw)
            fixed = _nested("fixed", like["fixed"], weights)
            table = _padded(weights.get(TABLE), spec.num_identifiers)
    except CheckpointError as error:
        raise PackageError(f"the weights do not fit the configuration: {error}") from error
    tree = {
        "params": params,
        "ema": ema,
        "puzzle_table": {} if table is None else {"rows": table},
        "fixed": fixed,
    }
    wanted = {path: tuple(leaf.shape) for path, leaf in _leaves(like)}
    found = {path: tuple(leaf.shape) for path, leaf in _leaves(tree)}
    if wrong := sorted(path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path)):
        path = wrong[0]
        raise PackageError(
            f"the weights do not fit the configuration: {'.'.join(path)} has shape {found.get(path)}, expected "
            f"{wanted.get(path)}"
        )
    return tree


def read_arrays(path: Path, largest_bytes: int) -> Arrays:
    """Read the arrays of an untrusted file; all must be float32.

    Args:
        path: The file.
        largest_bytes: Maximum size of an array.
    """
    try:
        return read_npz(path, largest_bytes, (np.dtype(np.float32),))
    except CheckpointError as error:
        raise PackageError(str(error)) from error


def largest_bytes(like: Tree) -> int:
    """Return the size of the largest leaf in a tree of shapes (bytes)."""
    return max((4 * prod(leaf.shape) for _, leaf in _leaves(like)), default=0)


def _leaves(tree: Tree, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, node in tree.items():
        if isinstance(node, dict):
            yield from _leaves(node, (*above, name))
        else:
            yield (*above, name), node


def _flat(prefix: str, tree: Tree) -> Arrays:
    return {".".join((prefix, *path)): np.asarray(leaf) for path, leaf in _leaves(tree)}


def _flat_names(prefix: str, tree: Tree) -> list[str]:
    return [".".join((prefix, *path)) for path, _ in _leaves(tree)]


def _nested(prefix: str, like: Tree, arrays: Arrays) -> Tree:
    tree: Tree = {}
    for path, _ in _leaves(like):
        node = tree
        for name in path[:-1]:
            node = node.setdefault(name, {})
        node[path[-1]] = arrays[".".join((prefix, *path))]
    return tree


def _padded(rows: NDArray[np.float32] | None, num_identifiers: int) -> NDArray[np.float32] | None:
    """Append to a puzzle table the padding rows that a mesh needs."""
    if rows is None or rows.ndim != 2:
        return rows
    if len(rows) != num_identifiers:
        raise CheckpointError(f"{TABLE}: {len(rows):,} rows for {num_identifiers:,} identifiers")
    table = np.zeros((table_rows(num_identifiers), rows.shape[1]), np.float32)
    table[: len(rows)] = rows
    return table


def _check_names(file: str, found: set[str], wanted: set[str]) -> None:
    if found != wanted:
        raise PackageError(
            f"{file}: does not fit the configuration: missing {sorted(wanted - found)}, "
            f"unknown {sorted(found - wanted)}"
        )
