"""The folder of a dataset: its files read, verified at reading, and published whole.

Everything that touches a file of a dataset comes through here, so that a file that is not what its manifest says is
never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trm_data.errors import BusyError, CorruptDatasetError
from trm_data.storage.store import Check, Folder, Turn, no_check

MANIFEST = "manifest.json"

FILE_PATTERN = re.compile(
    r"(train|validation|test)-\d{5}-of-\d{5}\.array_record|catalog/[a-z_]{1,40}\.(parquet|json)"
)
SHA256_PATTERN = re.compile(r"[0-9a-f]{64}")


class StoredFile(Protocol):
    """What a manifest says of a file."""

    @property
    def file(self) -> str:
        """Name within the dataset's folder."""
        ...

    @property
    def size_bytes(self) -> int:
        """Size."""
        ...

    @property
    def sha256(self) -> str:
        """Digest of its bytes, hexadecimal."""
        ...


def check_entry(file: StoredFile) -> None:
    """A manifest's entry names a file that a dataset can have: no path that leads anywhere else.

    Raises:
        CorruptDatasetError: It does not.
    """
    name, sha256, size = str(file.file), str(file.sha256), str(file.size_bytes)
    if not (FILE_PATTERN.fullmatch(name) and SHA256_PATTERN.fullmatch(sha256) and size.isdecimal()):
        raise CorruptDatasetError(f"names {name!r} of {size} bytes, which can be no file of a dataset")


@dataclass(frozen=True)
class DatasetFolder(Folder):
    """Files of one dataset, at `datasets/<name>` of a store.

    Every operation raises `BucketError` where a bucket cannot be reached or refuses, `OSError` where a disk does.
    """

    @property
    def here(self) -> Path:
        """Where a build writes files on this machine; of a local root, the folder itself."""
        return self.store.working(self.path)

    def decoded_rows(self, digest: str) -> Path:
        """Folder of this machine for the decoded rows of a split that has this digest."""
        return self.store.machine / "cache" / "rows" / digest

    def open(self, file: StoredFile, *, fresh: bool = False) -> Path:
        """A file of the dataset on this machine, with the bytes that its manifest names.

        Args:
            file: The file.
            fresh: Read what the store holds now, even if this machine has the file.

        Raises:
            CorruptDatasetError: It is missing, shorter or longer, or has other bytes.
        """
        check_entry(file)
        return self.store.fetch(self._name(file), file.size_bytes, file.sha256, fresh=fresh)

    def damaged(self, files: Sequence[StoredFile]) -> list[str]:
        """What is wrong with these files where they lie: one line each that is missing or has other bytes."""
        return self._each(self.store.damage, files)

    def missing_shards(self, files: Sequence[StoredFile]) -> list[str]:
        """Shards among these files that a listing of the folder lacks."""
        there = set(self.names("*"))
        return [file.file for file in files if "/" not in file.file and file.file not in there]

    def overwritten(self, files: Sequence[StoredFile]) -> list[str]:
        """As `damaged`, of files just written: what another machine may have done to them meanwhile."""
        return self._each(self.store.overwritten, files)

    def publish(self, file: StoredFile, source: Path, check: Check = no_check) -> bool:
        """Bring a whole file from elsewhere to its place; whether it was not there yet.

        Raises:
            BuildError: It changed on the way.
        """
        check_entry(file)
        return self.store.put(self._name(file), source, file.size_bytes, file.sha256, check)

    def publish_built(self, file: StoredFile, check: Check = no_check) -> None:
        """A file that a build has written into `here` is whole.

        Raises:
            BuildError: It changed on the way.
        """
        check_entry(file)
        self.finish(file.file, file.sha256, check)

    def publish_note(self, file: str, content: bytes, check: Check = no_check) -> None:
        """Write a small file that no manifest names, such as a sidecar, unless it is there."""
        if self.read(file) != content:
            self.write(file, content, check)

    def publish_manifest(self, content: bytes) -> bool:
        """Write the manifest: from now on there is the dataset; False if there is another one, which stays."""
        return self.store.create(f"{self.path}/{MANIFEST}", content)

    def withdraw_manifest(self, turn: Turn) -> None:
        """Remove the manifest: from now on there is no dataset, only files that a build may use again."""
        self.delete(MANIFEST, turn.check)

    def remove_temporary(self) -> None:
        """Remove what killed builds were writing on this machine."""
        self.store.remove_temporary(self.path)

    def remove_leftovers(self, keep: Iterable[str], check: Check = no_check) -> None:
        """Remove shards that killed or differently divided builds left: never anything that is not ours.

        Args:
            keep: Names of the shards that stay, and of their sidecars.
            check: Called before each is removed.
        """
        wanted = set(keep)
        self.remove_temporary()
        for file in self.names("*"):
            if FILE_PATTERN.fullmatch(file.removesuffix(".json")) and file not in wanted:
                self.delete(file, check)
        for path in {*self.here.glob("*.array_record"), *self.here.glob("*.array_record.json")}:
            if path.name not in wanted:
                path.unlink(missing_ok=True)

    def clear_working(self) -> None:
        """Remove what a build has left on this machine, where files do not lie here anyway."""
        self.store.clear_working(self.path)

    def remove(self, files: Iterable[StoredFile], turn: Turn) -> None:
        """Remove the dataset, its manifest first, so that no half of it looks like one.

        Args:
            files: What its manifest names, in case a bucket's listing is behind.
            turn: The right to write there.
        """
        self.withdraw_manifest(turn)
        check = Unfinished(self, turn).check
        self.store.delete_folder(self.path, [self._name(file) for file in files], check)

    @property
    def size_bytes(self) -> int:
        """Size of all its files, whole or not."""
        return self.store.size_bytes(self.path)

    def _name(self, file: StoredFile) -> str:
        return f"{self.path}/{file.file}"

    def _each(self, look: Look, files: Sequence[StoredFile]) -> list[str]:
        for file in files:
            check_entry(file)
        with ThreadPoolExecutor(self.store.at_a_time) as pool:
            found = pool.map(lambda file: look(self._name(file), file.size_bytes, file.sha256), files)
            return [problem for problem in found if problem]


@dataclass(frozen=True)
class Unfinished:
    """The right to write the files of a dataset that has no manifest: once there is one, another machine wrote it.

    Attributes:
        folder: The dataset.
        turn: The right to write its folder.
    """

    folder: DatasetFolder
    turn: Turn

    def check(self) -> None:
        """Nobody took it away, and nobody finished the dataset.

        Raises:
            BusyError: Another machine took over, or has finished it.
        """
        self.turn.check()
        if self.folder.store.stat(f"{self.folder.path}/{MANIFEST}") is not None:
            raise BusyError(
                f"{self.folder.place}: another machine has finished this dataset meanwhile; nothing of it is touched, "
                "and the same command finds it"
            )


class Look(Protocol):
    """`Store.damage` or `Store.overwritten`."""

    def __call__(self, name: str, size_bytes: int, sha256: str) -> str:
        """What is wrong with a file, or nothing."""
        ...
