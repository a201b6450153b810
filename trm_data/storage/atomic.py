"""Atomic writes: a temporary file, then a rename."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from trm_data.errors import CorruptDatasetError

_HERE = secrets.token_hex(4)
_TEMPORARY = ".tmp-"

LEFT_S = 86_400.0
"""Minimum age of a temporary file left by a killed process, in folders with several writers, in seconds."""

Algorithm = Literal["sha256", "md5"]


def temporary_path(path: Path) -> Path:
    """Return the temporary path where this process writes a file before it is renamed to `path`.

    Each process has its own name: the workers of a killed build may outlive its lock for a moment, and machines may
    share a folder.
    """
    return path.with_name(f"{_TEMPORARY}{_HERE}-{os.getpid()}-{path.name}")


def is_temporary(name: str) -> bool:
    """Return whether this is the name of a temporary file."""
    return name.rpartition("/")[2].startswith(_TEMPORARY)


def remove_temporary(folder: Path, *, older_s: float = 0.0) -> None:
    """Remove the temporary files that killed writers left below a folder, as far as permissions allow.

    Args:
        folder: It need not exist.
        older_s: Remove only files not written to for this time (s), because a writer may be active.
    """
    before = time.time() - older_s
    for path in folder.rglob(f"{_TEMPORARY}*"):
        with suppress(OSError):  # already gone, or on a read-only root
            if path.is_file() and path.stat().st_mtime <= before:
                path.unlink()


def file_sha256(path: Path) -> str:
    """Return the hex sha256 of a file's bytes."""
    return file_digest(path, "sha256")


def file_digest(path: Path, algorithm: Algorithm) -> str:
    """Return the hex digest of a file's bytes; md5 serves only for comparison with a bucket, not for security."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def sync_file(path: Path) -> None:
    """Flush a finished file to disk, before a rename marks it as complete."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically and durably; on an error the old one stays."""
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
    """Write indented JSON, atomically like `write_bytes`."""
    write_bytes(path, json_bytes(value))


def parse_json(content: bytes | str) -> Any:
    """Return the value of a JSON text; raise ValueError for deep nesting, lone surrogates and integers over 64 bits."""
    text = content if isinstance(content, str) else content.decode(json.detect_encoding(content))
    try:
        value = json.loads(text, parse_int=_bounded_int)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except UnicodeEncodeError as error:
        raise ValueError(f"{error.object[error.start]!a} is half a character, a lone surrogate") from error
    return value


_SURROGATE = re.compile(r"[\ud800-\udfff]|\\u[dD][89a-fA-F]")


def _bounded_int(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= int(text) < 2**64:
        raise ValueError(f"integer beyond 64 bits (got {text[:24]})")
    return int(text)


def json_bytes(value: object) -> bytes:
    """Return indented JSON with sorted keys."""
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def with_digest(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with `digest`, computed over its other fields."""
    covered = {name: value for name, value in content.items() if name != "digest"}
    canonical = json.dumps(covered, sort_keys=True, separators=(",", ":")).encode()
    return {**covered, "digest": hashlib.sha256(canonical).hexdigest()}


def check_file(path: Path, *, size_bytes: int, digest: str, algorithm: Algorithm = "sha256") -> None:
    """Check the size and digest of a file; raise `CorruptDatasetError` if they differ."""
    if not path.is_file():
        raise CorruptDatasetError(f"{path}: is missing")
    found = path.stat().st_size
    if found != size_bytes:
        raise CorruptDatasetError(f"{path}: has {found:,} bytes, the manifest says {size_bytes:,}")
    if file_digest(path, algorithm) != digest:
        raise CorruptDatasetError(f"{path}: its bytes have changed ({algorithm} differs from the manifest's)")
