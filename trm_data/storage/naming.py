"""Names of shard files: `<split>-00003-of-00016.array_record`, each with a sidecar `<shard>.json`."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

_HERE = secrets.token_hex(4)
SUFFIX = ".array_record"


def shard_name(split: str, shard: int, num_shards: int) -> str:
    """File name of one shard."""
    return f"{split}-{shard:05d}-of-{num_shards:05d}{SUFFIX}"


def sidecar_name(shard: str) -> str:
    """File name of the small JSON beside a shard that says it is whole."""
    return f"{shard}.json"


def sidecar_path(shard: Path) -> Path:
    """Path of a shard's sidecar."""
    return shard.with_name(sidecar_name(shard.name))


def temporary_path(path: Path) -> Path:
    """Where this process writes a file before it is renamed to `path`.

    Each process has a name of its own: the workers of a killed build may live a moment longer than its lock, and
    machines may share a folder.
    """
    return path.with_name(f".tmp-{_HERE}-{os.getpid()}-{path.name}")


def is_temporary(path: Path) -> bool:
    """Whether a killed writer left this file."""
    return path.name.startswith(".tmp-")
