"""Atomic writes (a temporary file, then a rename), and files whose names carry the digest of their bytes.

A name with a digest is `<stem>.<16 hexadecimal digits of sha256>.parquet`. The name alone
reveals any damage, without another file that could be lost. A file is checked when it is first
read, and again when its size, time or inode changes; `cache/whole.json` of this machine records
the checked files. Files of format 1 have no digest and are not checked. Writers of the same stem
replace one another: the old file is deleted after the new one exists.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trm_data.errors import CorruptDatasetError, CorruptFileError

if TYPE_CHECKING:
    from trm_data.storage.store import Folder

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


DIGITS = 16
NAME = re.compile(rf"(?P<stem>.+?)(\.(?P<digest>[0-9a-f]{{{DIGITS}}}))?\.parquet")
CACHED = re.compile(r"[0-9a-f]{64}")
"""Name of a file in this machine's cache of a bucket: its sha256 (`storage.cache`)."""


def stem_of(name: str) -> str:
    """Return the stem of a file name, which is the same for files that replace one another."""
    match = NAME.fullmatch(name)
    return name if match is None else match["stem"]


def digest_of(name: str) -> str | None:
    """Return the digest in a name, or None if it has none, as in format 1."""
    match = NAME.fullmatch(name)
    return None if match is None else match["digest"]


def write_digested(folder: Folder, stem: str, write: Callable[[Path], None]) -> str:
    """Write a file atomically under a name with its digest; other files of the stem stay.

    Args:
        folder: Target folder.
        stem: Stem of its name.
        write: Writes the content to a path.

    Returns:
        Its name in the folder.
    """
    temporary = temporary_path(folder.working(f"{stem}.parquet"))
    try:
        write(temporary)
        sync_file(temporary)
        sha256 = file_sha256(temporary)
        name = f"{stem}.{sha256[:DIGITS]}.parquet"
        temporary.replace(folder.working(name))
    finally:
        temporary.unlink(missing_ok=True)
    folder.finish(name, sha256)
    return name


def of_stem(folder: Folder, stem: str) -> list[str]:
    """List the files of a stem.

    A writer lists the files to replace before it writes. So if two writers replace them at once, at least one file
    stays.
    """
    return [name for name in folder.names("*.parquet") if stem_of(name) == stem]


def one_of_each(names: Iterable[str]) -> list[str]:
    """Return one file of each stem. If a writer died before it removed the old file, both are valid."""
    chosen: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (digest_of(name) is not None, name)):
        chosen[stem_of(name)] = name
    return sorted(chosen.values())


def checked_files(
    folder: Folder, names: Sequence[str], *, again: bool = False, damaged: list[str] | None = None
) -> list[Path | None]:
    """Return local paths of files, each checked against the digest in its name; None for missing files.

    Args:
        folder: Their folder.
        names: Their names in it.
        again: Also check files that passed before.
        damaged: Receives a line for each damaged file, whose path is then None. Without it damage is an error.

    Raises:
        CorruptFileError: A file is damaged, and `damaged` is None.
    """
    if not names:
        return []
    paths = folder.currents(names)
    note = folder.store.machine / "cache" / "whole.json"
    known = {} if again else _read(note)
    unknown = [
        (name, path, digest, mark)
        for name, path in zip(names, paths, strict=True)
        if path is not None and (digest := digest_of(name)) is not None
        if not (CACHED.fullmatch(path.name) and path.name.startswith(digest))  # already verified by the cache
        if known.get(str(path)) != (mark := _mark(path, digest))
    ]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda item: _digest(item[1]), unknown))
    gone = {path for (_, path, _, mark), there in zip(unknown, found, strict=True) if not (mark and there)}
    for (name, path, digest, _), there in zip(unknown, found, strict=True):
        if path in gone or there == digest:
            continue
        said = (
            f"{folder.where(name)}: its bytes are not those that were written (their digest is {there}, the name "
            "says another). Restore it from a copy, or delete it and make a new one"
        )
        if damaged is None:
            raise CorruptFileError(said)
        damaged.append(said)
        gone.add(path)
    if unknown:
        _write(note, {**_read(note), **{str(path): mark for _, path, _, mark in unknown if path not in gone}})
    return [None if path in gone else path for path in paths]


def _digest(path: Path) -> str:
    """Return the digest of a file's bytes; empty if the file was deleted meanwhile."""
    try:
        return file_sha256(path)[:DIGITS]
    except FileNotFoundError:
        return ""


def _mark(path: Path, digest: str) -> str:
    """Return a string that changes when a file may have other bytes; empty if the file was deleted meanwhile."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return ""
    return f"{digest} {status.st_size} {status.st_mtime_ns} {status.st_ino}"


def _read(note: Path) -> dict[str, str]:
    try:
        found = parse_json(note.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(note: Path, known: dict[str, str]) -> None:
    """Save which files are checked; if that fails, files are checked each time."""
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        write_json(note, {path: mark for path, mark in known.items() if Path(path).is_file()})
    except OSError:
        return
