"""Local cache of bucket files, by digest: verified at every use, with a size limit.

    <cache>/files/<first two digits>/<digest>, .lock

The least recently used files are removed first. All processes of a machine share the cache. A file gets its name when
it is complete, and its writer holds the folder's lock, so that a file is fetched once. A killed process leaves a
temporary file; the next fetch overwrites it, or the size limit removes it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from trm_data.errors import CacheFullError, CorruptDatasetError, SpecError
from trm_data.storage.atomic import Algorithm, check_file

ATTEMPTS = 4
"""Maximum number of downloads of a file before its bytes count as damaged."""
DEFAULT_LIMIT_BYTES = 50_000_000_000
SPARED_S = 10.0
"""Time since the last use during which a file is not removed, in seconds: its reader may not have opened it yet."""
FETCHING_S = 3600.0
"""Minimum age of a temporary file left by a killed process, in seconds."""


def user_cache() -> Path:
    """Return the cache folder: `TRM_CACHE`, else `trm` in the user's cache directory (XDG).

    Everything in it may be deleted when nothing runs.
    """
    if chosen := os.environ.get("TRM_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "trm"


def machine_folder(place: str) -> Path:
    """Return this machine's folder for a root on a bucket or in a read-only folder."""
    return user_cache() / "roots" / hashlib.sha256(place.encode()).hexdigest()[:16]


def limit_bytes() -> int:
    """Return the size limit: `TRM_CACHE_BYTES`, else 50 GB."""
    text = os.environ.get("TRM_CACHE_BYTES") or str(DEFAULT_LIMIT_BYTES)
    try:
        limit = int(float(text))
    except (ValueError, OverflowError):
        limit = -1
    if limit < 0:
        raise SpecError(f"TRM_CACHE_BYTES={text}: expected a number of bytes, such as 20e9")
    return limit


def cached_file(
    digest: str,
    size_bytes: int,
    fetch: Callable[[Path], bool],
    what: str,
    *,
    fresh: bool = False,
    algorithm: Algorithm = "sha256",
) -> Path:
    """Return the cached file with these bytes; fetch it if it is missing.

    Args:
        digest: Digest of its bytes, hexadecimal.
        size_bytes: Its size.
        fetch: Writes the file to a path; returns whether the source has it.
        what: Path or URL of the source, for messages.
        fresh: Fetch it even if it is cached, to check what the source holds.
        algorithm: Algorithm of the digest; md5 for objects that were not uploaded by us, as a bucket knows only that.
    """
    path = _path(digest)
    with _locked(path.parent):
        if not fresh and _is_whole(path, size_bytes, digest, algorithm):
            os.utime(path)
            return path
        _make_room(size_bytes, keep=path)
        temporary = path.with_name(f".tmp-{digest}")
        try:
            _fetch(temporary, size_bytes, digest, algorithm, fetch, what)
            temporary.replace(path)
            _make_room(0, keep=path)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise CacheFullError(
                    f"{path.parent}: no space for {what} ({size_bytes:,} bytes); free some, or set TRM_CACHE "
                    "to another folder"
                ) from error
            raise
        finally:
            temporary.unlink(missing_ok=True)
    return path


def adopt(source: Path, sha256: str) -> None:
    """Move a checked file into the cache."""
    path = _path(sha256)
    with _locked(path.parent):
        _make_room(source.stat().st_size, keep=source)
        try:
            source.replace(path)
        except OSError:  # another file system
            temporary = path.with_name(f".tmp-{sha256}")
            shutil.move(source, temporary)
            temporary.replace(path)
        os.utime(path)


def _fetch(
    temporary: Path,
    size_bytes: int,
    digest: str,
    algorithm: Algorithm,
    fetch: Callable[[Path], bool],
    what: str,
) -> None:
    """Fetch into a temporary file; retry if the bytes differ from the digest."""
    for attempt in range(1, ATTEMPTS + 1):
        if not fetch(temporary):
            raise CorruptDatasetError(f"{what}: is missing")
        try:
            check_file(temporary, size_bytes=size_bytes, digest=digest, algorithm=algorithm)
            return
        except CorruptDatasetError as error:
            if attempt == ATTEMPTS:
                raise CorruptDatasetError(str(error).replace(str(temporary), what)) from None


def _is_whole(path: Path, size_bytes: int, digest: str, algorithm: Algorithm) -> bool:
    if not path.is_file():
        return False
    try:
        check_file(path, size_bytes=size_bytes, digest=digest, algorithm=algorithm)
    except CorruptDatasetError:
        path.unlink(missing_ok=True)
        return False
    return True


def _make_room(size_bytes: int, keep: Path) -> None:
    """Remove the least recently used files until this many bytes fit; a file over the limit becomes the only one."""
    found: list[tuple[float, int, Path]] = []
    for path in _folder().glob("*/*"):
        with suppress(FileNotFoundError):  # another process removed it
            status = path.stat()
            spared = FETCHING_S - SPARED_S if path.name.startswith(".tmp-") else 0.0
            found.append((status.st_mtime + spared, status.st_size, path))
    total = sum(size for _, size, _ in found) + size_bytes
    limit = limit_bytes()
    recent = time.time() - SPARED_S
    for used, size, path in sorted(found):
        if total <= limit or used > recent:
            return
        if path != keep and path.name != ".lock":
            path.unlink(missing_ok=True)
            total -= size


def _folder() -> Path:
    return user_cache() / "files"


def _path(digest: str) -> Path:
    return _folder() / digest[:2] / digest


@contextmanager
def _locked(folder: Path) -> Generator[None, None, None]:
    """Hold a folder's lock; others wait."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
