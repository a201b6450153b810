"""The interface of a root: files by name, written atomically, and leases.

Names are relative to the root (`datasets/<name>/manifest.json`). `local.LocalStore` and `gcs.BucketStore` are the
two stores; callers do not ask which one they have. A `Folder` is a store and a prefix: the folder of a dataset, a run
or a result table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from trm_data.errors import SpecError
from trm_data.storage.atomic import remove_temporary

Item = TypeVar("Item")
Answer = TypeVar("Answer")

Check = Callable[[], None]
"""Called before each write or deletion; raises `BusyError` if the caller may no longer write."""


def no_check() -> None:
    """Pass always: for folders that have one writer."""


class Stored(NamedTuple):
    """Metadata of a file, known without reading it; a bucket knows more than a disk.

    Attributes:
        name: Name in the store.
        size_bytes: Size.
        generation: Differs for every file that ever had this name; on a disk, changes whenever the bytes may change.
        changes: Number of changes of an object's metadata.
        md5: md5 of an object's bytes, hexadecimal, computed by the bucket.
        sha256: sha256 of an object's bytes, recorded in its metadata by the upload. Empty for other objects, and
            if the recorded md5 shows that the bytes were replaced later.
        digest_verified: The md5 in the metadata is that computed by the bucket, so `sha256` belongs to these bytes.
    """

    name: str
    size_bytes: int
    generation: str
    changes: str = ""
    md5: str = ""
    sha256: str = ""
    digest_verified: bool = False


def check_inside(name: str) -> str:
    """Return the name if it stays inside the root; names may come from untrusted files.

    Raises:
        SpecError: It is absolute, or a part of it is empty, `.` or `..`, or contains a NUL or a backslash.
    """
    if any(part in ("", ".", "..") for part in name.split("/")) or "\0" in name or "\\" in name:
        raise SpecError(f"{name!r}: is not a file name under the root")
    return name


class Lease:
    """The right to write a folder. This base class is for a root that no other machine writes."""

    def check(self) -> None:
        """Check that the lease is still held. Call before changing anything that another machine may have written.

        Raises:
            BusyError: Another machine took over.
        """


class Store(Protocol):
    """Files under one root.

    Every operation raises `BucketError` if a bucket is unreachable or refuses, and `OSError` if a disk fails.
    """

    max_concurrent_requests: int
    """Maximum number of concurrent requests that improves speed."""
    local: bool
    """Whether files are on a disk of this machine, whose lock excludes all other writers."""

    @property
    def place(self) -> str:
        """Path or URL of the root, for messages."""
        ...

    @property
    def machine(self) -> Path:
        """Folder of this machine's own files for this root: index, locks, caches, unfinished files."""
        ...

    def where(self, name: str) -> str:
        """Return the path or URL of a file, for messages."""
        ...

    def uri(self, name: str) -> str:
        """Return the absolute path or URL of a file, for libraries that do their own input and output."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file, or None if it does not exist."""
        ...

    def write(self, name: str, content: bytes, check: Check = no_check) -> None:
        """Write a small file atomically, replacing the version that existed before `check`."""
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Write a small file atomically if it does not exist; keep an existing file, False if its bytes differ.

        The caller holds the folder's lock (`lease.locked`).
        """
        ...

    def delete(self, name: str, check: Check = no_check) -> bool:
        """Delete a file; return whether it existed. A file that another writer replaced since `check` stays."""
        ...

    def delete_folder(self, folder: str) -> None:
        """Delete every file below a folder except its lease; `folder` has no trailing `/`."""
        ...

    def each(self, ask: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer]:
        """Map a function that queries the store over the items, with `max_concurrent_requests` concurrent requests."""
        if self.max_concurrent_requests == 1:
            return [ask(item) for item in items]
        with ThreadPoolExecutor(self.max_concurrent_requests) as pool:
            return list(pool.map(ask, items))

    def listed(self, folder: str, pattern: str = "**") -> list[Stored]:
        """List the files below a folder with their metadata, sorted by name, without unfinished files.

        Args:
            folder: Without a trailing `/`.
            pattern: Glob for the rest of the name; `*` matches anything but `/`, `**` alone matches everything.
        """
        ...

    def names(self, folder: str, pattern: str = "**") -> list[str]:
        """List the names of the files below a folder; see `listed`."""
        return [file.name for file in self.listed(folder, pattern)]

    def stat(self, name: str) -> Stored | None:
        """Return the metadata of a file, or None if it does not exist."""
        ...

    def fetch(self, name: str, size_bytes: int, sha256: str, *, fresh: bool = False) -> Path:
        """Return the path of a file on this machine, after checking its bytes.

        Args:
            name: The file.
            size_bytes: Its size.
            sha256: Digest of its bytes, hexadecimal.
            fresh: Read the file from the store even if this machine has a copy.

        Raises:
            CorruptDatasetError: It is missing, or its size or bytes differ.
        """
        ...

    def current(self, name: str) -> Path | None:
        """Return a path on this machine with the store's current bytes of a file, or None if it does not exist."""
        ...

    def damage(self, name: str, size_bytes: int, sha256: str) -> str:
        """Describe in one line what is wrong with a stored file; return an empty string if it has these bytes.

        On a bucket the metadata is enough: size, digest at upload, and whether the bytes are still the same. A file
        without that metadata is read, unless this machine has a copy.
        """
        ...

    def working(self, name: str) -> Path:
        """Return the path where this machine writes a file before `finish`."""
        ...

    def finish(self, name: str, sha256: str, check: Check = no_check) -> None:
        """Move a complete file from `working` to its final place.

        Raises:
            BuildError: It changed during the move or copy.
        """
        ...

    def remove_temporary(self, folder: str, older_s: float = 0.0) -> None:
        """Remove the temporary files that killed writers left on this machine.

        Args:
            folder: The folder.
            older_s: Remove only files not written to for this time (s), because other writers may be active.
        """
        remove_temporary(self.working(folder), older_s=older_s)

    def lease(self, folder: str, what: str) -> AbstractContextManager[Lease]:
        """Keep other machines from writing a folder. The caller holds this machine's lock (`lease.locked`).

        Args:
            folder: The folder.
            what: Content of the folder, for the message: `dataset small`.

        Raises:
            BusyError: Another machine is writing it.
        """
        ...


@dataclass(frozen=True)
class Folder:
    """A folder of a store; names are relative to it.

    Attributes:
        store: The store.
        path: Name of the folder in it, without a trailing `/`.
    """

    store: Store
    path: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def place(self) -> str:
        """Path or URL of the folder, for messages."""
        return self.store.where(self.path)

    def __str__(self) -> str:
        return self.place

    def within(self, path: str) -> Folder:
        """Return a folder inside this one."""
        return Folder(self.store, f"{self.path}/{path}")

    def where(self, name: str) -> str:
        """Return the path or URL of a file, for messages."""
        return self.store.where(f"{self.path}/{name}")

    def uri(self, name: str = "") -> str:
        """Return the absolute path or URL of a file or the folder, for libraries that do their own input and output."""
        return self.store.uri(f"{self.path}/{name}" if name else self.path)

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file of the folder, or None if it does not exist."""
        return self.store.read(f"{self.path}/{name}")

    def write(self, name: str, content: bytes, check: Check = no_check) -> None:
        """Write a small file atomically, replacing an existing file."""
        self.store.write(f"{self.path}/{name}", content, check)

    def delete(self, name: str, check: Check = no_check) -> bool:
        """Delete a file; return whether it existed."""
        return self.store.delete(f"{self.path}/{name}", check)

    def names(self, pattern: str = "**") -> list[str]:
        """List the files below this folder, sorted, with names relative to it; see `Store.names` for the pattern."""
        return [name.removeprefix(f"{self.path}/") for name in self.store.names(self.path, pattern)]

    def current(self, name: str) -> Path | None:
        """Return a path on this machine with the store's current bytes of a file, or None if it does not exist."""
        return self.store.current(f"{self.path}/{name}")

    def currents(self, names: Sequence[str]) -> list[Path | None]:
        """Return `current` of several files, with concurrent requests."""
        return self.store.each(self.current, names)

    def working(self, name: str) -> Path:
        """Return the path where this machine writes a file before `finish`, and create its parent folder."""
        path = self.store.working(f"{self.path}/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def finish(self, name: str, sha256: str, check: Check = no_check) -> None:
        """Move a complete file from `working` to its final place."""
        self.store.finish(f"{self.path}/{name}", sha256, check)
