"""A root on a bucket: read through a cache on this machine, written here first, checked and then uploaded."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from typing_extensions import override

from trm_data.errors import BucketError, CorruptDatasetError
from trm_data.storage.atomic import file_digest, remove_temporary
from trm_data.storage.cache import adopt, cached_file
from trm_data.storage.claim import claimed
from trm_data.storage.connection import prepare_other_libraries
from trm_data.storage.machine import user_cache
from trm_data.storage.objects import Bucket
from trm_data.storage.store import Check, Store, Stored, Turn, check_inside, no_check

CLAIM = ".building"
"""Object in a folder that says who writes it."""


class BucketStore(Store):
    """Files under `gs://bucket/prefix`.

    In another process or on another machine it has that machine's folder.

    Args:
        url: The root.
        machine: This machine's folder for it.
    """

    at_a_time = 16
    lock_is_enough = False

    def __init__(self, url: str, machine: Path) -> None:
        self._url = url
        self._machine = machine

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """From its URL, so that a copy on another machine knows that machine's folder."""
        return bucket_store, (self._url,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BucketStore) and (self._url, self._machine) == (other._url, other._machine)

    def __hash__(self) -> int:
        return hash((self._url, self._machine))

    def __repr__(self) -> str:
        return f"BucketStore({self._url!r})"

    @cached_property
    def _bucket(self) -> Bucket:
        return Bucket(self._url)

    @property
    @override
    def place(self) -> str:
        """The URL."""
        return self._url

    @property
    @override
    def machine(self) -> Path:
        """A folder of the user's cache that belongs to this URL."""
        return self._machine

    @override
    def where(self, name: str) -> str:
        """The object's URL."""
        return f"{self._url}/{name}"

    @override
    def uri(self, name: str) -> str:
        """The object's URL."""
        prepare_other_libraries()
        return f"{self._url}/{name}"

    @override
    def read(self, name: str) -> bytes | None:
        return self._bucket.read(name)

    @override
    def write(self, name: str, content: bytes, check: Check = no_check) -> None:
        """What was being written under this name here is superseded."""
        self._bucket.write(name, content, check)
        self.working(name).unlink(missing_ok=True)

    @override
    def create(self, name: str, content: bytes) -> bool:
        return self._bucket.create(name, content)

    @override
    def delete(self, name: str, check: Check = no_check) -> bool:
        """The very object that is there now."""
        there = self._bucket.stat(name)
        if there is None:
            return False
        check()
        return self._bucket.delete(name, there.generation)

    @override
    def delete_folder(self, folder: str, names: Iterable[str] = (), check: Check = no_check) -> None:
        """Of each file the very object that was seen."""
        shutil.rmtree(self.working(folder), ignore_errors=True)
        found = {there.path: there.generation for there in self._bucket.objects(f"{folder}/")}
        unlisted = [name for name in names if name not in found]

        def delete(name: str, generation: str) -> None:
            check()
            self._bucket.delete(name, generation)

        with ThreadPoolExecutor(self.at_a_time) as pool:
            for there in pool.map(self._bucket.stat, unlisted):
                if there is not None:
                    found[there.path] = there.generation
            found.pop(f"{folder}/{CLAIM}", None)
            list(pool.map(delete, found, found.values()))

    @override
    def size_bytes(self, folder: str) -> int:
        unfinished = [path.stat().st_size for path in self.working(folder).rglob("*") if path.is_file()]
        return sum(there.size_bytes for there in self._bucket.objects(f"{folder}/")) + sum(unfinished)

    @override
    def names(self, folder: str, pattern: str = "**") -> list[str]:
        return [there.path for there in self._bucket.objects(f"{folder}/", pattern)]

    @override
    def stat(self, name: str) -> Stored | None:
        there = self._bucket.stat(name)
        return None if there is None else Stored(there.size_bytes, there.generation, there.sha256)

    @override
    def fetch(self, name: str, size_bytes: int, sha256: str, *, fresh: bool = False) -> Path:
        return cached_file(
            sha256,
            size_bytes,
            lambda target: self._bucket.download(name, target),
            self.where(name),
            fresh=fresh,
        )

    @override
    def current(self, name: str) -> Path | None:
        """Fetched unless this machine has these bytes."""
        there = self._bucket.stat(name)
        if there is None:
            return None
        if there.sha256:
            return self.fetch(name, there.size_bytes, there.sha256)
        if not there.md5:
            raise BucketError(f"{self.where(name)}: the bucket states no md5 of it; copy it there anew")
        download = self._bucket.download
        return cached_file(
            there.md5,
            there.size_bytes,
            lambda target: download(name, target),
            self.where(name),
            algorithm="md5",
        )

    @override
    def damage(self, name: str, size_bytes: int, sha256: str) -> str:
        there = self._bucket.stat(name)
        if there is None:
            return f"{self.where(name)}: is missing"
        if (there.size_bytes, there.sha256) == (size_bytes, sha256):
            try:
                if there.proved or file_digest(self.fetch(name, size_bytes, sha256), "md5") == there.md5:
                    return ""
            except CorruptDatasetError as error:
                return str(error)
        return f"{self.where(name)}: has other bytes than the manifest says"

    @override
    def overwritten(self, name: str, size_bytes: int, sha256: str) -> str:
        return self.damage(name, size_bytes, sha256)

    @override
    def working(self, name: str) -> Path:
        """In this machine's folder."""
        return self._machine / check_inside(name)

    @override
    def finish(self, name: str, sha256: str, check: Check = no_check) -> None:
        """Upload it; what is here is the cache's from then on, so that it need not be fetched to be used."""
        source = self.working(name)
        self._bucket.upload(name, source, sha256, check)
        adopt(source, sha256)

    @override
    def put(self, name: str, source: Path, size_bytes: int, sha256: str, check: Check = no_check) -> bool:
        return self._bucket.upload(name, source, sha256, check)

    @override
    def remove_temporary(self, folder: str, older_s: float = 0.0) -> None:
        remove_temporary(self.working(folder), older_s=older_s)

    @override
    def clear_working(self, folder: str) -> None:
        shutil.rmtree(self.working(folder), ignore_errors=True)

    @contextmanager
    @override
    def turn(self, folder: str, what: str) -> Generator[Turn, None, None]:
        """A claim on the bucket."""
        machine = self._machine / ".locks" / "machine"
        with claimed(self._bucket, f"{folder}/{CLAIM}", machine, what) as claim:
            yield claim


def bucket_store(url: str) -> BucketStore:
    """The store of a root on a bucket, with this machine's folder for it."""
    return BucketStore(url, user_cache() / "roots" / hashlib.sha256(url.encode()).hexdigest()[:16])
