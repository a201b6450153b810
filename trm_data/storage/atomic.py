"""Files that are either whole or absent: written under a temporary name, then renamed in one step."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from trm_data.errors import CorruptDatasetError
from trm_data.storage.naming import temporary_path

_CHUNK_BYTES = 1 << 20


def file_sha256(path: Path) -> str:
    """Hex sha256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def sync_file(path: Path) -> None:
    """Have a finished file on the disk before its name says that it is whole."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a whole file, durably, or leave the old one."""
    temporary = temporary_path(path)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: object) -> None:
    """Write JSON that a person can read, as `write_bytes` does."""
    write_bytes(path, json_bytes(value))


def json_bytes(value: object) -> bytes:
    """JSON that a person can read."""
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def check_file(path: Path, *, size_bytes: int, sha256: str) -> None:
    """Check that a file is the one that was written.

    Raises:
        CorruptDatasetError: It is missing, shorter or longer, or has other bytes.
    """
    if not path.is_file():
        raise CorruptDatasetError(f"{path}: is missing")
    found = path.stat().st_size
    if found != size_bytes:
        raise CorruptDatasetError(f"{path}: has {found:,} bytes, the manifest says {size_bytes:,}")
    if file_sha256(path) != sha256:
        raise CorruptDatasetError(f"{path}: its bytes have changed (sha256 differs from the manifest's)")
