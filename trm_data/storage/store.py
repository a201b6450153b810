"""The interface of a root: files by name, written atomically, and leases.

Names are relative to the root (`datasets/<name>/manifest.json`). `local.LocalStore` and `gcs.BucketStore` are the
two stores; whoever holds one does not ask which. A `Folder` is a store and a prefix: a dataset's, a run's, a result
table's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from trm_data.errors import SpecError
from trm_data.storage.atomic import remove_temporary

Item = TypeVar("Item")
Answer = TypeVar("Answer")

Check = Callable[[], None]
"""Called before something is written or deleted; raises `BusyError` where it may not be any more."""


def no_check() -> None:
    """Nobody else writes there."""


@dataclass(frozen=True)
class Stored:
    """What a store says of a file without reading it; a bucket says more of an object.

    Attributes:
        name: Name in the store.
        size_bytes: Size.
        generation: Differs for every file that ever had this name; on a disk, whenever the file may have other bytes.
        changes: Counts the changes of an object's metadata.
        md5: Of an object's bytes, hexadecimal; the bucket computed it.
        sha256: Of an object's bytes, as `Objects.upload` stated it; empty for other objects, and for those whose bytes
            were replaced under what was stated.
        proved: The object states the md5 that the bucket computed, so its bytes are those that `sha256` was stated of.
    """

    name: str
    size_bytes: int
    generation: str
    changes: str = ""
    md5: str = ""
    sha256: str = ""
    proved: bool = False


def check_inside(name: str) -> str:
    """A name that stays inside the root, whoever wrote it.

    Raises:
        SpecError: It is absolute, or a part of it is empty, `.` or `..`, or holds a NUL or a backslash.
    """
    if any(part in ("", ".", "..") for part in name.split("/")) or "\0" in name or "\\" in name:
        raise SpecError(f"{name!r}: is not a file name under the root")
    return name


class Lease:
    """The right to write a folder; this one of a root that no other machine writes."""

    def check(self) -> None:
        """Call before anything is touched that another machine may have written.

        Raises:
            BusyError: Another machine took over.
        """


class Objects(Protocol):
    """Objects of a bucket under a URL; each is created where there is none, or in the place of a known generation.

    Every request raises `BucketError` where the bucket cannot be reached or refuses, or the response is not a bucket's.
    """

    def where(self, path: str) -> str:
        """URL of an object, for messages."""
        ...

    def read(self, path: str) -> bytes | None:
        """A small object; None if there is none. It is compared with the digest that the bucket states of it."""
        ...

    def download(self, path: str, target: Path) -> bool:
        """Write an object to a file; False if there is none. The caller checks its bytes."""
        ...

    def stat(self, path: str) -> Stored | None:
        """What the bucket says of an object, asked of itself and not of a listing; None if there is none."""
        ...

    def objects(self, folder: str, pattern: str = "**") -> list[Stored]:
        """The objects in a folder, sorted by name, as far as the bucket's listing is up to date.

        Args:
            folder: Ends with `/`.
            pattern: Of the rest of the name; `*` stands for anything but `/`, `**` alone for everything.
        """
        ...

    def create(self, path: str, content: bytes) -> bool:
        """Write a small object unless the name exists; False if it exists with other bytes."""
        ...

    def write(self, path: str, content: bytes, check: Check = no_check) -> None:
        """Write a small object, or replace the generation that was there before `check`, in one step."""
        ...

    def upload(self, path: str, source: Path, sha256: str, check: Check = no_check) -> bool:
        """Upload a file in the place of an object with other bytes, and see that it arrived.

        Args:
            path: Name of the object.
            source: The file.
            sha256: What its bytes must have, hexadecimal; the object states it from then on.
            check: Called before anything is written or deleted, and between the parts of a large file.

        Returns:
            Whether it was uploaded; False if the object was there already.

        Raises:
            BuildError: The file is not what `sha256` says.
        """
        ...

    def touch(self, path: str, generation: str, note: str) -> bool:
        """Change an object's metadata, so that others see a sign of life; False if that generation is gone."""
        ...

    def delete(self, path: str, generation: str | None = None) -> bool:
        """Delete an object, only of this generation if one is given; whether it was there."""
        ...


class Store(Protocol):
    """Files under one root.

    Every operation raises `BucketError` where a bucket cannot be reached or refuses, `OSError` where a disk does.
    """

    at_a_time: int
    """Requests worth having under way at once."""
    local: bool
    """Whether files are on a disk of this machine, whose lock keeps every other writer away."""

    @property
    def place(self) -> str:
        """The root as a person knows it."""
        ...

    @property
    def machine(self) -> Path:
        """Folder of this machine's own files for this root: index, locks, caches, what is being written."""
        ...

    def where(self, name: str) -> str:
        """A file as a person knows it: its path or URL."""
        ...

    def uri(self, name: str) -> str:
        """What libraries that read and write by themselves take: an absolute path or a URL."""
        ...

    def read(self, name: str) -> bytes | None:
        """A small file; None if there is none."""
        ...

    def write(self, name: str, content: bytes, check: Check = no_check) -> None:
        """Write a small file whole, replacing the version that existed before `check`."""
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Write a small file whole if there is none; False if there is one with other bytes, which stays.

        The folder's lock (`lease.locked`) is held.
        """
        ...

    def delete(self, name: str, check: Check = no_check) -> bool:
        """Delete a file; whether it was there. A file that another writer replaced since `check` stays."""
        ...

    def delete_folder(self, folder: str, check: Check = no_check) -> None:
        """Delete every file below a folder, its leases aside.

        Args:
            folder: Without a trailing `/`.
            check: Called before each file is deleted.
        """
        ...

    def size_bytes(self, folder: str) -> int:
        """Size of all files below a folder, with those that this machine has not finished."""
        ...

    def each(self, ask: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer]:
        """What a function that asks the store gives for each item, with `at_a_time` requests under way."""
        if self.at_a_time == 1:
            return [ask(item) for item in items]
        with ThreadPoolExecutor(self.at_a_time) as pool:
            return list(pool.map(ask, items))

    def names(self, folder: str, pattern: str = "**") -> list[str]:
        """Files below a folder, sorted; what a writer has not finished is not among them.

        Args:
            folder: Without a trailing `/`.
            pattern: What the rest of a name is like; `*` stands for anything but `/`, `**` alone for everything.
        """
        ...

    def stat(self, name: str) -> Stored | None:
        """What the store says of a file; None if there is none."""
        ...

    def fetch(self, name: str, size_bytes: int, sha256: str, *, fresh: bool = False) -> Path:
        """A file on this machine, checked to have these bytes.

        Args:
            name: The file.
            size_bytes: Its size.
            sha256: Of its bytes, hexadecimal.
            fresh: Read what the store holds now, even if this machine has those bytes.

        Raises:
            CorruptDatasetError: It is missing, shorter or longer, or has other bytes.
        """
        ...

    def current(self, name: str) -> Path | None:
        """A file on this machine with the bytes that the store holds now; None if there is none."""
        ...

    def damage(self, name: str, size_bytes: int, sha256: str) -> str:
        """What is wrong with a file where it lies, in one line; empty if it has these bytes.

        Of a file on a bucket nothing is read: the bucket says its size and the digest it was uploaded with, and
        whether its bytes are still those. A file without that statement is read, unless this machine has a copy.
        """
        ...

    def working(self, name: str) -> Path:
        """Where this machine writes a file before `finish`."""
        ...

    def finish(self, name: str, sha256: str, check: Check = no_check) -> None:
        """A file that was written at `working` is whole: it takes its place.

        Raises:
            BuildError: It changed on the way.
        """
        ...

    def put(self, name: str, source: Path, size_bytes: int, sha256: str, check: Check = no_check) -> bool:
        """Copy a whole file to its place, unless it is there; whether it was copied.

        Raises:
            BuildError: It changed on the way.
        """
        ...

    def remove_temporary(self, folder: str, older_s: float = 0.0) -> None:
        """Remove what killed writers were writing on this machine.

        Args:
            folder: The folder.
            older_s: Only files not written to for this time (s), where other writers may be at work.
        """
        remove_temporary(self.working(folder), older_s=older_s)

    def lease(self, folder: str, what: str) -> AbstractContextManager[Lease]:
        """Keep other machines from writing a folder. This machine's lock (`lease.locked`) is held.

        Args:
            folder: The folder.
            what: What lies there, for the message: `dataset small`.

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
        """Last part of its path."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def place(self) -> str:
        """The folder as a person knows it."""
        return self.store.where(self.path)

    def __str__(self) -> str:
        return self.place

    def within(self, path: str) -> Folder:
        """A folder in this one."""
        return Folder(self.store, f"{self.path}/{path}")

    def where(self, name: str) -> str:
        """A file as a person knows it."""
        return self.store.where(f"{self.path}/{name}")

    def uri(self, name: str = "") -> str:
        """What libraries that read and write by themselves take, of a file or the folder: an absolute path or a URL."""
        return self.store.uri(f"{self.path}/{name}" if name else self.path)

    def read(self, name: str) -> bytes | None:
        """A small file of the folder; None if there is none."""
        return self.store.read(f"{self.path}/{name}")

    def write(self, name: str, content: bytes, check: Check = no_check) -> None:
        """Write a small file whole, replacing an existing file."""
        self.store.write(f"{self.path}/{name}", content, check)

    def delete(self, name: str, check: Check = no_check) -> bool:
        """Delete a file; whether it was there."""
        return self.store.delete(f"{self.path}/{name}", check)

    def names(self, pattern: str = "**") -> list[str]:
        """Files below this folder by their names in it, sorted; see `Store.names` for the pattern."""
        return [name.removeprefix(f"{self.path}/") for name in self.store.names(self.path, pattern)]

    def current(self, name: str) -> Path | None:
        """A file on this machine with the bytes that the store holds now; None if there is none."""
        return self.store.current(f"{self.path}/{name}")

    def currents(self, names: Sequence[str]) -> list[Path | None]:
        """`current` of several files, asked for at a time."""
        return self.store.each(self.current, names)

    def working(self, name: str) -> Path:
        """Where this machine writes a file before `finish`; the folder around it is made."""
        path = self.store.working(f"{self.path}/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def finish(self, name: str, sha256: str, check: Check = no_check) -> None:
        """A file that was written at `working` is whole: it takes its place."""
        self.store.finish(f"{self.path}/{name}", sha256, check)
