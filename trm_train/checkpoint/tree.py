"""Converts states and weights to nested dictionaries, whose keys name the leaves of a checkpoint, and back.

Names follow from the position of a leaf in the state, for any network and optimizer:

    carry.<state>, carry.steps, carry.halted, carry.current.<column>     <state>: a state of the network
    optimizer.<path>       fields of named tuples by name, elements of tuples by number
    params, ema, fixed     by module
    puzzle_table.rows      missing without puzzle positions
    step, key

`trm-eval export` writes the weights among them in one safetensors file, as float32; its metadata has the meta of the
checkpoint under `checkpoint`, as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np

from trm_data.storage.atomic import parse_json
from trm_data.storage.store import Folder
from trm_train.errors import CheckpointError
from trm_train.model.act import Carry
from trm_train.state import TrainState, Weights
from trm_train.weights import read_metadata, read_safetensors, write_safetensors

CARRY_NAMES = ("steps", "halted", "current")
"""Reserved names: fields of a carry besides the network's states, whose names must differ."""


def state_tree(state: TrainState) -> dict[str, Any]:
    """Return a training state as nested dictionaries of arrays.

    Raises:
        CheckpointError: The state has names or arrays that a checkpoint cannot hold.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        if 0 in getattr(leaf, "shape", ()):
            name = ".".join(_names(path))
            raise CheckpointError(f"{name} has the shape {leaf.shape}: no checkpoint holds it. Leave it out")
    carry = state.carry
    taken = sorted(set(CARRY_NAMES) & set(carry.states))
    if taken:
        raise CheckpointError(f"the network has a state {taken[0]}, which is a field of the carry. Rename it")
    return {
        "params": _nested(state.params),
        "optimizer": _nested(state.opt_state),
        "ema": _nested(state.ema),
        "puzzle_table": _optional(state.puzzle_table),
        "fixed": _nested(state.fixed),
        "carry": {
            **_nested(carry.states),
            "steps": carry.steps,
            "halted": carry.halted,
            "current": carry.current,
        },
        "step": state.step,
        "key": state.key,
    }


def state_from_tree(tree: dict[str, Any], like: TrainState) -> TrainState:
    """Inverse of `state_tree`, for a state with the structure of `like` (arrays or their shapes)."""
    carry = tree["carry"]
    return TrainState(
        params=_as(like.params, tree["params"]),
        opt_state=_as(like.opt_state, tree["optimizer"]),
        ema=_as(like.ema, tree["ema"]),
        puzzle_table=tree["puzzle_table"].get("rows"),
        fixed=_as(like.fixed, tree["fixed"]),
        carry=Carry(
            states=_as(like.carry.states, carry),
            steps=carry["steps"],
            halted=carry["halted"],
            current=carry["current"],
        ),
        step=tree["step"],
        key=tree["key"],
    )


def weights_tree(state: TrainState | Weights) -> dict[str, Any]:
    """Return the part of a state that evaluation may need: raw and averaged parameters, puzzle table, latents.

    For `Weights` (from `abstract_weights`), both sets of parameters are the same.
    """
    ema = state.ema if isinstance(state, TrainState) else state.params
    return {
        "params": _nested(state.params),
        "ema": _nested(ema),
        "puzzle_table": _optional(state.puzzle_table),
        "fixed": _nested(state.fixed),
    }


def choose_weights(tree: dict[str, Any], which: str) -> Weights:
    """Return the weights to evaluate from a `weights_tree`, with `ema` or `raw` parameters."""
    params = tree["ema"] if which == "ema" else tree["params"]
    return Weights(params=params, fixed=tree["fixed"], puzzle_table=tree["puzzle_table"].get("rows"))


def _nested(tree: Any) -> dict[str, Any]:
    """Return any pytree of arrays as nested dictionaries; nodes without arrays disappear."""
    nested: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        node = nested
        *parents, name = _names(path)
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = leaf
    return nested


def _as(like: Any, nested: dict[str, Any]) -> Any:
    """Inverse of `_nested`: return the leaves in the structure of `like`."""
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    leaves: list[Any] = []
    for path, _ in paths:
        node: Any = nested
        for name in _names(path):
            node = cast("dict[str, Any]", node)[name]
        leaves.append(node)
    return jax.tree.unflatten(structure, leaves)


def _names(path: tuple[Any, ...]) -> list[str]:
    """Return the names on the path to a leaf: keys, fields, numbers."""
    return [jax.tree_util.keystr((step,), simple=True) for step in path]


def _optional(value: Any) -> dict[str, Any]:
    """Return an optional array as a dictionary, which is empty for None."""
    return {} if value is None else {"rows": value}


FILE = "model.safetensors"
EARLIER = "package.json"
"""File of the packages that version 0.1 wrote."""
CHECKPOINT = "checkpoint"


def write_exported(path: Path, tree: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
    """Write the arrays of a `weights_tree`, and the meta of their checkpoint."""
    write_safetensors(path, _flat(tree), CHECKPOINT, json.dumps(meta, sort_keys=True))


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
