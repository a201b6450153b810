"""Where things live under the one root that all commands share.

    <root>/datasets/<name>/manifest.json, <split>-00003-of-00016.array_record, catalog/*.parquet
    <root>/catalog.duckdb
    <root>/runs/<group>/<experiment>/<run>/config.json, checkpoints/, metrics/*.parquet, logs/, status.json
    <root>/results/<table>/experiment=<e>/run=<r>/*.parquet
    <root>/cache/generated/, cache/..., <root>/.locks/      (may be deleted when nothing runs)

The root is `--root`, else `TRM_ROOT`, else `./trm`: a local folder, or `gs://bucket/prefix`. Of a root on a bucket
`datasets/`, `runs/` and `results/` lie on the bucket; what only this machine needs (`catalog.duckdb`, locks, decoded
rows, files that are being written) lies in a folder of the user's cache that belongs to this URL.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from trm_data.errors import SpecError
from trm_data.specs import NAME_PATTERN, check_name
from trm_data.storage.datasets import MANIFEST, DatasetFolder
from trm_data.storage.local import LocalStore
from trm_data.storage.store import Folder, Store

DEFAULT_ROOT = "trm"
BUCKET_URL = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[A-Za-z0-9_=.+@-]+)*")
"""A root on a bucket; only characters that mean nothing to a listing or a URL."""


@dataclass(frozen=True)
class Layout:
    """What lies where under one root.

    Attributes:
        store: The root's files.
    """

    store: Store

    @property
    def place(self) -> str:
        """The root as a person knows it."""
        return self.store.place

    @property
    def machine(self) -> Path:
        """Folder of this machine's own files for the root; a local root is that folder itself."""
        return self.store.machine

    @property
    def catalog(self) -> Path:
        """The DuckDB index over all datasets."""
        return self.machine / "catalog.duckdb"

    @property
    def cache(self) -> Path:
        """Decoded rows and generated puzzles: anything here may be deleted."""
        return self.machine / "cache"

    @property
    def generated(self) -> Path:
        """Generated puzzles that took long to make, for other builds of the same generator."""
        return self.cache / "generated"

    @property
    def locks(self) -> Path:
        """Files that processes of this machine hold locks on; never read."""
        return self.machine / ".locks"

    @property
    def runs(self) -> Folder:
        """Folder of training runs, by group and experiment."""
        return Folder(self.store, "runs")

    @property
    def results(self) -> Folder:
        """Folder of the hive-partitioned result tables."""
        return Folder(self.store, "results")

    def dataset(self, name: str) -> DatasetFolder:
        """Folder of one dataset. Names cannot leave the root.

        Raises:
            SpecError: The name has a form that no dataset can have.
        """
        return DatasetFolder(self.store, f"datasets/{check_name(name)}")

    def dataset_names(self) -> list[str]:
        """Names of the datasets that have a manifest.

        A bucket's listing may be behind: what it names may be gone, and what it lacks can be opened by name.
        """
        names = [path.split("/")[1] for path in self.store.names("datasets", f"*/{MANIFEST}")]
        return [name for name in names if NAME_PATTERN.fullmatch(name) and ".." not in name]


Root = str | os.PathLike[str] | Layout | Store

MISREAD = frozenset("\\?")
"""Characters that libraries read as something else: a slash, the end of a path."""


def resolve_root(root: Root | None = None) -> Layout:
    """The layout under `root`, else under `TRM_ROOT`, else under `./trm`.

    Args:
        root: A local folder, `gs://bucket/prefix`, or a layout or a store, as they are.

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
    if not _is_utf8(place):
        raise SpecError(f"root: the path is not UTF-8 (got {place!a}). Choose a folder with another name.")
    return Layout(store_of(place))


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:  # bytes of another encoding, which ArrayRecord, Parquet and DuckDB do not take
        return False
    return True


def root_to_read(root: Root | None = None) -> Layout:
    """As `resolve_root`, of a root that is only read: a local one is there.

    Raises:
        SpecError: There is no such folder, or the root is neither a local folder nor `gs://bucket/prefix`.
    """
    layout = resolve_root(root)
    if isinstance(layout.store, LocalStore) and not Path(layout.place).is_dir():
        raise SpecError(
            f"no root at {layout.place}: nothing was built or trained there (--root DIR or $TRM_ROOT names another)"
        )
    return layout


def folder_on_bucket(text: str) -> Folder | None:
    """The folder that a URL names; None where a text is none.

    Raises:
        SpecError: A URL that is not `gs://bucket/prefix`.
    """
    if not text.startswith("gs://"):
        return None
    parent, _, name = text.rstrip("/").rpartition("/")
    return Folder(store_of(parent), name)


def store_of(root: str) -> Store:
    """The store of a root as a person writes it.

    Raises:
        SpecError: The root is neither a local folder nor `gs://bucket/prefix`.
    """
    if "://" in root or root.startswith("gs:"):
        url = root.rstrip("/")
        if not BUCKET_URL.fullmatch(url) or {".", ".."} & set(url.split("/")):
            raise SpecError(
                f"--root {root}: expected a local folder or gs://bucket/prefix, of letters, digits and _=.+@-"
            )
        from trm_data.storage.bucket import bucket_store  # with ssl and asyncio

        return bucket_store(url)
    folder = Path(root).expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise SpecError(f"--root {root}: is a file, not a folder")
    if odd := sorted(MISREAD.intersection(str(folder))):
        raise SpecError(
            f"--root {root}: the path {folder} has a {odd[0]!r}, which DuckDB and TensorStore cannot have in a path; "
            "choose another folder"
        )
    return LocalStore(folder)
