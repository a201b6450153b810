"""The files of datasets, wherever the root is: read, verified at reading, and published whole.

A local root holds them as they are. Everything that opens a file of a dataset comes through here, so that a file
that is not what its manifest says is never read.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from trm_data.errors import BuildError, DatasetNotFoundError
from trm_data.layout import Layout
from trm_data.shards.files import check_file, write_bytes

MANIFEST = "manifest.json"


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


def dataset_names(layout: Layout) -> list[str]:
    """Names of the datasets under a root, those that have a manifest."""
    if not layout.datasets.is_dir():
        return []
    return sorted(path.parent.name for path in layout.datasets.glob(f"*/{MANIFEST}"))


def read_manifest_bytes(layout: Layout, name: str) -> bytes:
    """The manifest file of a dataset.

    Raises:
        DatasetNotFoundError: There is none; the message says which datasets there are.
    """
    try:
        return (layout.dataset(name) / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        known = dataset_names(layout)
        have = f"there are: {', '.join(known)}" if known else "there are none yet: trm-data build sudoku"
        raise DatasetNotFoundError(f"no dataset {name!r} under {layout.root} ({have})") from None


def open_file(layout: Layout, name: str, file: StoredFile) -> Path:
    """A file of a dataset on this machine, with the bytes that its manifest names.

    Raises:
        CorruptDatasetError: It is missing, shorter or longer, or has other bytes.
    """
    path = layout.dataset(name) / file.file
    check_file(path, size_bytes=file.size_bytes, sha256=file.sha256)
    return path


def publish_manifest(layout: Layout, name: str, content: bytes) -> None:
    """Write the manifest: from now on there is the dataset."""
    write_bytes(layout.dataset(name) / MANIFEST, content)


def withdraw_manifest(layout: Layout, name: str) -> None:
    """Remove the manifest: from now on there is no dataset, only files that a build may use again."""
    (layout.dataset(name) / MANIFEST).unlink(missing_ok=True)


def remove_dataset(layout: Layout, name: str) -> None:
    """Remove a dataset, its manifest first, so that no half of it looks like one."""
    withdraw_manifest(layout, name)
    shutil.rmtree(layout.dataset(name), ignore_errors=True)


@contextmanager
def writing(layout: Layout, name: str) -> Generator[None, None, None]:
    """Hold the dataset's lock; a second build of the same name stops with a clear message."""
    layout.locks.mkdir(parents=True, exist_ok=True)
    with (layout.locks / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BuildError(f"{name}: another build of this dataset is running; wait for it") from None
        yield
