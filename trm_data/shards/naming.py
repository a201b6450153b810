"""Names of shard files: `<split>-00003-of-00016.array_record`, each with a sidecar `<shard>.json`."""

from __future__ import annotations

from pathlib import Path

SUFFIX = ".array_record"


def shard_name(split: str, shard: int, num_shards: int) -> str:
    """Return the file name of one shard."""
    return f"{split}-{shard:05d}-of-{num_shards:05d}{SUFFIX}"


def sidecar_name(shard: str) -> str:
    """Return the file name of a shard's sidecar, the small JSON file that marks the shard as complete."""
    return f"{shard}.json"


def sidecar_path(shard: Path) -> Path:
    """Return the path of a shard's sidecar."""
    return shard.with_name(sidecar_name(shard.name))
