"""A root that is a local folder, with the machine's lock."""

from __future__ import annotations

import fnmatch
import glob
import os
import shutil
import stat
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from trm_data.errors import CorruptDatasetError
from trm_data.storage.atomic import (
    check_file,
    is_temporary,
    write_bytes,
)
from trm_data.storage.store import Check, Lease, Store, Stored, check_inside, no_check


@dataclass(frozen=True)
class LocalStore(Store):
    """Files under a local folder; it need not exist yet.

    Attributes:
        root: The folder, absolute.
    """

    root: Path
    max_concurrent_requests = 1
    local = True

    def _path(self, name: str) -> Path:
        """Return the path of a file or folder, which is inside the root."""
        return self.root / check_inside(name)

    @property
    @override
    def place(self) -> str:
        return str(self.root)

    @property
    @override
    def machine(self) -> Path:
        return self.root

    @override
    def where(self, name: str) -> str:
        return str(self._path(name))

    @override
    def uri(self, name: str) -> str:
        return str(self._path(name))

    @override
    def read(self, name: str) -> bytes | None:
        try:
            return self._path(name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    @override
    def write(self, name: str, content: bytes, check: Check = no_check) -> None:
        path = self._path(name)
        check()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content)

    @override
    def create(self, name: str, content: bytes) -> bool:
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            return path.read_bytes() == content
        write_bytes(path, content)
        return True

    @override
    def delete(self, name: str, check: Check = no_check) -> bool:
        check()
        try:
            self._path(name).unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    @override
    def delete_folder(self, folder: str) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self._path(folder))

    @override
    def listed(self, folder: str, pattern: str = "**") -> list[Stored]:
        top = str(self._path(folder))
        if pattern == "**":
            paths = [f"{place}/{name}" for place, _, names in os.walk(top) for name in names]
        else:
            paths = [top]
            for part in pattern.split("/"):
                paths = [path for place in paths for path in _children(place, part)]
        found: list[Stored] = []
        for path in sorted(paths):
            if is_temporary(path):
                continue
            try:
                status = os.stat(path)  # noqa: PTH116  # in half the time
            except (FileNotFoundError, NotADirectoryError):
                continue
            if stat.S_ISREG(status.st_mode):
                found.append(_stored(f"{folder}{path[len(top) :]}", status))
        return found

    @override
    def stat(self, name: str) -> Stored | None:
        try:
            status = self._path(name).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _stored(name, status)

    @override
    def fetch(self, name: str, size_bytes: int, sha256: str, *, fresh: bool = False) -> Path:
        path = self._path(name)
        check_file(path, size_bytes=size_bytes, digest=sha256)
        return path

    @override
    def current(self, name: str) -> Path | None:
        path = self._path(name)
        return path if path.is_file() else None

    @override
    def damage(self, name: str, size_bytes: int, sha256: str) -> str:
        """Read the whole file."""
        try:
            self.fetch(name, size_bytes, sha256)
        except CorruptDatasetError as error:
            return str(error)
        return ""

    @override
    def working(self, name: str) -> Path:
        """Return the final path: files are written in place."""
        return self._path(name)

    @override
    def finish(self, name: str, sha256: str, check: Check = no_check) -> None:
        """Do nothing: the file is already in its place."""

    @override
    def lease(self, folder: str, what: str) -> AbstractContextManager[Lease]:
        """Return a lease that never expires: the machine's lock, held by the caller, is enough."""
        return nullcontext(Lease())


def _children(folder: str, pattern: str) -> list[str]:
    """Return the paths in a folder whose name matches a pattern; a name without wildcards need not exist."""
    if not glob.has_magic(pattern):
        return [f"{folder}/{pattern}"]
    try:
        return [f"{folder}/{name}" for name in fnmatch.filter(os.listdir(folder), pattern)]  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []


def _stored(name: str, status: os.stat_result) -> Stored:
    return Stored(name, status.st_size, f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}")
