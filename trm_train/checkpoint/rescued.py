"""A training state that could not be saved where the run lies, kept in the user's cache of each of its hosts.

Every process keeps the shards that its devices hold, as they are, and process 0 the metric rows that no part of the
table holds; nothing is sent, and nobody is asked. So it is read again by as many processes of the same layout only.
`kept.json` is written last and has the digests of the other files: what a kill cut short is never seen.

    kept/<run and root>/worker-<i>/state.npz       the bytes of every shard, by number
    kept/<run and root>/worker-<i>/rows.parquet    rows of `train_metrics`
    kept/<run and root>/worker-<i>/kept.json       `Rescued`
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from trm_data.storage.atomic import file_sha256, parse_json, with_digest, write_json
from trm_data.storage.machine import user_cache
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import CheckpointMeta
from trm_train.checkpoint.tree import state_from_tree, state_tree
from trm_train.hosts.together import Hosts
from trm_train.metrics.table import Part, keep_rows
from trm_train.state import TrainState

STATE, ROWS, KEPT = "state.npz", "rows.parquet", "kept.json"
FORMAT_VERSION = 1

Shard = tuple[str, str]
"""A leaf and the part of it that a shard is."""


@dataclass(frozen=True, kw_only=True)
class Rescued:
    """What one process has kept.

    Attributes:
        meta: As of a checkpoint.
        created_at: When the run began; begun anew it is another one.
        worker: Which process.
        workers: How many there were.
        shards: Leaf, part, type and shape of each, by its number.
        files: sha256 of the files beside it.
    """

    meta: CheckpointMeta
    created_at: str
    worker: int
    workers: int
    shards: list[tuple[str, str, str, tuple[int, ...]]]
    files: dict[str, str]
    format_version: int = FORMAT_VERSION


def place_of(run: Folder, hosts: Hosts) -> Path:
    """Where this process keeps a state of a run."""
    named = hashlib.sha256(run.place.encode()).hexdigest()[:16]
    return user_cache() / "kept" / f"{run.name}-{named}" / f"worker-{hosts.index}"


def rescue_state(
    run: Folder,
    hosts: Hosts,
    state: TrainState,
    meta: CheckpointMeta,
    created_at: str,
    rows: Part | None = None,
) -> Path:
    """Keep this process's part of a state; asks no other process, and no device for anything but a copy.

    Args:
        run: The run's folder.
        hosts: All processes of the run.
        state: Whose arrays have not been given to another step.
        meta: What the checkpoint would have said of itself.
        created_at: Of the run's record.
        rows: Of the metric table, which no part of it holds.

    Raises:
        OSError: It cannot be written here either.
    """
    folder = place_of(run, hosts)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shards = _shards(state)
    arrays = {
        str(number): np.frombuffer(data.tobytes(), np.uint8) for number, data in enumerate(shards.values())
    }
    with (folder / STATE).open("wb") as file:
        np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
    if rows is not None:
        keep_rows(rows, folder / ROWS)
    kept = Rescued(
        meta=meta,
        created_at=created_at,
        worker=hosts.index,
        workers=hosts.count,
        shards=[(*shard, str(data.dtype), data.shape) for shard, data in shards.items()],
        files={path.name: file_sha256(path) for path in sorted(folder.iterdir())},
    )
    write_json(folder / KEPT, with_digest(asdict(kept)))
    return folder


def find_rescued(run: Folder, hosts: Hosts) -> Rescued | None:
    """What this process has kept of a run, if it is whole; None otherwise."""
    folder = place_of(run, hosts)
    try:
        value: dict[str, Any] = parse_json((folder / KEPT).read_bytes())
        if with_digest(value) != value or value["format_version"] != FORMAT_VERSION:
            return None
        value.pop("digest")
        value["meta"] = CheckpointMeta(**value["meta"])
        value["shards"] = [(*shard[:3], tuple(shard[3])) for shard in value["shards"]]
        kept = Rescued(**value)
        whole = all(file_sha256(folder / name) == digest for name, digest in kept.files.items())
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return kept if whole and STATE in kept.files else None


def load_rescued(run: Folder, hosts: Hosts, kept: Rescued, like: TrainState) -> TrainState | None:
    """The state that all processes have kept, laid out as `like`; None where it was laid out otherwise here."""
    named = {(leaf, part): (str(number), dtype) for number, (leaf, part, dtype, _) in enumerate(kept.shards)}
    with np.load(place_of(run, hosts) / STATE, allow_pickle=False) as stored:
        arrays = dict(stored)

    def made(path: Any, leaf: Any) -> jax.Array:
        name = _name(path)

        def shard(index: Any) -> np.ndarray:
            number, dtype = named[name, _part(index, leaf.shape)]
            shape = tuple(
                len(range(*along.indices(size))) for along, size in zip(index, leaf.shape, strict=True)
            )
            return np.frombuffer(arrays[number].tobytes(), _dtype(dtype)).reshape(shape)

        return jax.make_array_from_callback(leaf.shape, leaf.sharding, shard)

    tree = state_tree(like)
    try:
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            for index in leaf.sharding.addressable_devices_indices_map(leaf.shape).values():
                if named[_name(path), _part(index, leaf.shape)][1] != str(leaf.dtype):
                    return None
    except KeyError:
        return None
    return state_from_tree(jax.tree_util.tree_map_with_path(made, tree), like)


def forget_rescued(run: Folder, hosts: Hosts) -> None:
    """Remove what this process has kept."""
    folder = place_of(run, hosts)
    (folder / KEPT).unlink(missing_ok=True)  # first, for without it the rest is nothing
    shutil.rmtree(folder, ignore_errors=True)


def _shards(state: TrainState) -> dict[Shard, np.ndarray]:
    """What this process's devices hold, each part once."""
    found: dict[Shard, np.ndarray] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(state_tree(state)):
        for shard in leaf.addressable_shards:
            key = _name(path), _part(shard.index, leaf.shape)
            if key not in found:
                found[key] = np.asarray(shard.data)
    return found


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _part(index: tuple[slice, ...], shape: tuple[int, ...]) -> str:
    """A part of an array: where it begins and ends along each dimension."""
    bounds = [along.indices(size)[:2] for along, size in zip(index, shape, strict=True)]
    return json.dumps(bounds)


def _dtype(name: str) -> Any:
    """A type of numpy, or one that jax adds to it."""
    return jax.numpy.dtype(name)
