"""The layout of a root, and the folder of a dataset.

    <root>/datasets/<name>/manifest.json, <split>-00003-of-00016.array_record, catalog/*.parquet
    <root>/catalog.duckdb, results.duckdb
    <root>/runs/<group>/<experiment>/<run>/config.json, checkpoints/, metrics/*.parquet, logs/, status.json
    <root>/sweeps/<name>.json
    <root>/results/<table>/experiment=<e>/run=<r>/*.parquet
    <root>/cache/generated/, cache/..., <root>/.locks/      (may be deleted when nothing runs)

The root is `--root`, else `TRM_ROOT`, else `./trm`: a local folder, or `gs://bucket/prefix`. If the root is on a
bucket, `datasets/`, `runs/`, `sweeps/` and `results/` are on the bucket. What only this machine needs (`*.duckdb`,
locks, decoded rows, unfinished files) is in a folder of the user's cache that belongs to this URL.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trm_data.errors import CorruptDatasetError, SpecError
from trm_data.specs import NAME_PATTERN, check_name
from trm_data.storage.cache import machine_folder
from trm_data.storage.gcs import bucket_store
from trm_data.storage.local import LocalStore
from trm_data.storage.store import Check, Folder, Lease, Store, no_check

MANIFEST = "manifest.json"

FILE_PATTERN = re.compile(
    r"(train|validation|test)-\d{5}-of-\d{5}\.array_record|catalog/[a-z_]{1,40}\.(parquet|json)"
)
SHA256_PATTERN = re.compile(r"[0-9a-f]{64}")
DEFAULT_ROOT = "trm"
BUCKET_URL = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[A-Za-z0-9_=.+@-]+)*")
"""URL of a root on a bucket, only with characters that have no meaning in a listing or a URL."""


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """The manifest's entry of a file: its name within the dataset's folder, the sha256 of its bytes, and its size."""

    file: str
    sha256: str
    size_bytes: int


def check_entry(file: FileEntry) -> None:
    """Check that a manifest's entry names a file that a dataset can have, and no path outside its folder."""
    name, sha256, size = str(file.file), str(file.sha256), str(file.size_bytes)
    if not (FILE_PATTERN.fullmatch(name) and SHA256_PATTERN.fullmatch(sha256) and size.isdecimal()):
        raise CorruptDatasetError(f"names {name!r} of {size} bytes, which can be no file of a dataset")


@dataclass(frozen=True)
class DatasetFolder(Folder):
    """Files of one dataset, at `datasets/<name>` of a store.

    Every operation raises `BucketError` if a bucket is unreachable or refuses, and `OSError` if a disk fails.
    """

    @property
    def here(self) -> Path:
        """Path where a build writes files on this machine; for a local root, the folder itself."""
        return self.store.working(self.path)

    def open(self, file: FileEntry, *, fresh: bool = False) -> Path:
        """Return a local path of a file of the dataset, checked against the manifest's digest.

        Args:
            file: The file.
            fresh: Read the file from the store even if this machine has a copy.
        """
        check_entry(file)
        return self.store.fetch(self._name(file), file.size_bytes, file.sha256, fresh=fresh)

    def damaged(self, files: Sequence[FileEntry]) -> list[str]:
        """Return one line for each stored file that is missing or has other bytes."""
        for file in files:
            check_entry(file)
        found = self.store.each(
            lambda file: self.store.damage(self._name(file), file.size_bytes, file.sha256), files
        )
        return [problem for problem in found if problem]

    def publish_built(self, file: FileEntry, check: Check = no_check) -> None:
        """Publish a complete file that a build has written into `here`."""
        check_entry(file)
        self.finish(file.file, file.sha256, check)

    def publish_note(self, file: str, content: bytes, check: Check = no_check) -> None:
        """Write a small file that no manifest names, such as a sidecar, unless it exists with this content."""
        if self.read(file) != content:
            self.write(file, content, check)

    def withdraw_manifest(self, lease: Lease) -> None:
        """Remove the manifest. The remaining files are no dataset, but a build may reuse them."""
        self.delete(MANIFEST, lease.check)

    def remove_temporary(self) -> None:
        """Remove the temporary files that killed builds left on this machine."""
        self.store.remove_temporary(self.path)

    def remove_leftovers(self, keep: Iterable[str], check: Check = no_check) -> None:
        """Remove shards left by killed builds or by builds with other shard sizes, and no foreign files.

        Args:
            keep: Names of the shards and sidecars to keep.
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

    def _name(self, file: FileEntry) -> str:
        return f"{self.path}/{file.file}"


@dataclass(frozen=True)
class Layout:
    """Paths and folders under one root.

    Attributes:
        store: Store of the root's files.
    """

    store: Store

    @property
    def place(self) -> str:
        """Path or URL of the root, for messages."""
        return self.store.place

    @property
    def machine(self) -> Path:
        """Folder of this machine's own files for the root; for a local root, the root itself."""
        return self.store.machine

    @property
    def catalog(self) -> Path:
        """The DuckDB index over all datasets."""
        return self.index("catalog.duckdb")

    def index(self, name: str) -> Path:
        """Return the path of an index over files of the root; in the user's cache if this process may not write the
        root.
        """
        here = not self.store.local or os.access(self.machine, os.W_OK)
        return (self.machine if here else machine_folder(self.place)) / name

    @property
    def generated(self) -> Path:
        """Folder of generated puzzles that took long to make, for other builds with the same generator."""
        return self.machine / "cache" / "generated"

    @property
    def runs(self) -> Folder:
        """Folder of training runs, by group and experiment."""
        return Folder(self.store, "runs")

    @property
    def sweeps(self) -> Folder:
        """Folder of the records of sweeps."""
        return Folder(self.store, "sweeps")

    @property
    def results(self) -> Folder:
        """Folder of the hive-partitioned result tables."""
        return Folder(self.store, "results")

    def dataset(self, name: str) -> DatasetFolder:
        """Return the folder of one dataset, after checking that the name stays inside the root."""
        return DatasetFolder(self.store, f"datasets/{check_name(name)}")

    def dataset_names(self) -> list[str]:
        """Return the names of the datasets that have a manifest."""
        names = [path.split("/")[1] for path in self.store.names("datasets", f"*/{MANIFEST}")]
        return [name for name in names if NAME_PATTERN.fullmatch(name) and ".." not in name]


Root = str | os.PathLike[str] | Layout | Store

MISREAD = frozenset("\\?")
"""Characters that libraries misread, as a slash or as the end of a path."""


def resolve_root(root: Root | None = None) -> Layout:
    """Return the layout of `root`, else of `TRM_ROOT`, else of `./trm`.

    Args:
        root: A local folder, `gs://bucket/prefix`, a layout (returned unchanged) or a store.

    Raises:
        SpecError: The root is neither a local folder nor `gs://bucket/prefix`.
    """
    if isinstance(root, Layout):
        return root
    if root is not None and not isinstance(root, (str, os.PathLike)):
        if not hasattr(root, "names"):
            raise SpecError(
                f"root: a folder, gs://bucket/prefix, a layout or a store, got {type(root).__name__}"
            )
        return Layout(root)
    place = os.fspath(root) if root is not None else os.environ.get("TRM_ROOT") or DEFAULT_ROOT
    try:
        place.encode()
    except UnicodeEncodeError:  # bytes of another encoding, which ArrayRecord, Parquet and DuckDB do not take
        raise SpecError(
            f"root: the path is not UTF-8 (got {place!a}). Choose a folder with another name."
        ) from None
    return Layout(store_of(place))


def root_to_read(root: Root | None = None) -> Layout:
    """Like `resolve_root`, for a root that is only read: a local root must exist."""
    layout = resolve_root(root)
    if isinstance(layout.store, LocalStore) and not Path(layout.place).is_dir():
        raise SpecError(
            f"no root at {layout.place}: nothing was built or trained there. Choose another with --root DIR or "
            f"$TRM_ROOT"
        )
    return layout


def folder_on_bucket(text: str) -> Folder | None:
    """Return the folder that a bucket URL names, or None if the text is not such a URL."""
    if not text.startswith("gs://"):
        return None
    parent, _, name = text.rstrip("/").rpartition("/")
    return Folder(store_of(parent), name)


def store_of(root: str) -> Store:
    """Return the store of a root given as a path or URL."""
    if "://" in root or root.startswith("gs:"):
        url = root.rstrip("/")
        if not BUCKET_URL.fullmatch(url) or {".", ".."} & set(url.split("/")):
            raise SpecError(
                f"--root {root}: expected a local folder or gs://bucket/prefix, of letters, digits and _=.+@-"
            )
        return bucket_store(url)
    folder = Path(root).expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise SpecError(f"--root {root}: is a file, not a folder")
    if odd := sorted(MISREAD.intersection(str(folder))):
        raise SpecError(
            f"--root {root}: the path {folder} has a {odd[0]!r}, which DuckDB and TensorStore do not support. "
            f"Choose another folder"
        )
    return LocalStore(folder)
