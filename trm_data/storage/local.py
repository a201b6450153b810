"""A root that is a folder of this machine: files lie where they are written, and the machine's lock is enough."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

from trm_data.errors import BuildError, CorruptDatasetError
from trm_data.storage.atomic import (
    check_file,
    file_sha256,
    is_temporary,
    remove_temporary,
    sync_file,
    temporary_path,
    write_bytes,
)
from trm_data.storage.store import Check, Store, Stored, Turn, check_inside, no_check

NO_LINKS = (
    errno.EPERM,
    errno.EACCES,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EINVAL,
    errno.EMLINK,
)
"""What file systems without hard links answer."""


class OwnTurn:
    """The turn of a root that no other machine writes."""

    def check(self) -> None:
        """The lock is held for as long as the process lives."""


def _name_once(temporary: Path, path: Path) -> None:
    """Give a whole file its name, by a hard link; on a file system without them by a rename under the folder's lock."""
    try:
        os.link(temporary, path)
        return
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        temporary.replace(path)
    finally:
        os.close(folder)


@dataclass(frozen=True)
class LocalStore(Store):
    """Files under a local folder; it need not exist yet.

    Attributes:
        root: The folder, absolute.
    """

    root: Path
    at_a_time = 1
    lock_is_enough = True

    def _path(self, name: str) -> Path:
        """Where a file or folder lies: inside the root."""
        return self.root / check_inside(name)

    @property
    @override
    def place(self) -> str:
        """The folder."""
        return str(self.root)

    @property
    @override
    def machine(self) -> Path:
        """The folder itself."""
        return self.root

    @override
    def where(self, name: str) -> str:
        """The file's path."""
        return str(self._path(name))

    @override
    def uri(self, name: str) -> str:
        """The file's path."""
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
        temporary = temporary_path(path)
        try:
            write_bytes(temporary, content)
            _name_once(temporary, path)
        except FileExistsError:
            return path.read_bytes() == content
        finally:
            temporary.unlink(missing_ok=True)
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
    def delete_folder(self, folder: str, names: Iterable[str] = (), check: Check = no_check) -> None:
        """All at once."""
        check()
        with suppress(FileNotFoundError):
            shutil.rmtree(self._path(folder))

    @override
    def size_bytes(self, folder: str) -> int:
        return sum(path.stat().st_size for path in self._path(folder).rglob("*") if path.is_file())

    @override
    def names(self, folder: str, pattern: str = "**") -> list[str]:
        top = self._path(folder)
        paths = top.rglob("*") if pattern == "**" else top.glob(pattern)
        files = [path.relative_to(self.root) for path in paths if path.is_file() and not is_temporary(path)]
        return sorted(path.as_posix() for path in files)

    @override
    def stat(self, name: str) -> Stored | None:
        try:
            status = self._path(name).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Stored(status.st_size, f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}")

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
        """The file is read."""
        try:
            self.fetch(name, size_bytes, sha256)
        except CorruptDatasetError as error:
            return str(error)
        return ""

    @override
    def overwritten(self, name: str, size_bytes: int, sha256: str) -> str:
        """The lock keeps every other writer away."""
        return ""

    @override
    def working(self, name: str) -> Path:
        """Its place."""
        return self._path(name)

    @override
    def finish(self, name: str, sha256: str, check: Check = no_check) -> None:
        """It is in its place."""

    @override
    def put(self, name: str, source: Path, size_bytes: int, sha256: str, check: Check = no_check) -> bool:
        target = self._path(name)
        if target == source or not self.damage(name, size_bytes, sha256):
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_path(target)
        try:
            shutil.copyfile(source, temporary)
            if file_sha256(temporary) != sha256:
                raise BuildError(f"{source}: changed while it was being copied; nothing else may write there")
            sync_file(temporary)
            check()
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        return True

    @override
    def remove_temporary(self, folder: str, older_s: float = 0.0) -> None:
        remove_temporary(self._path(folder), older_s=older_s)

    @override
    def clear_working(self, folder: str) -> None:
        """What is here is the files themselves."""

    @contextmanager
    @override
    def turn(self, folder: str, what: str) -> Generator[Turn, None, None]:
        """The machine's lock, which is held, is enough."""
        yield OwnTurn()
