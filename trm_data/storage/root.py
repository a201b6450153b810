"""Where things live under the one root that all commands share.

    <root>/datasets/<name>/manifest.json, <split>-00003-of-00016.array_record, catalog/*.parquet
    <root>/catalog.duckdb
    <root>/runs/<group>/<experiment>/<run>/config.json, checkpoints/, metrics/*.parquet
    <root>/cache/generated/, cache/..., <root>/.locks/      (may be deleted when nothing runs)
    <root>/results/<table>/experiment=<e>/run=<r>/*.parquet

The root is `--root`, else `TRM_ROOT`, else `./trm`: a local folder, or `gs://bucket/prefix`. Of a root on a bucket
`datasets/` lies on the bucket; what only this machine needs (`catalog.duckdb`, locks, decoded rows, files that are
being written) lies in a folder of the user's cache that belongs to this URL.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from trm_data.errors import SpecError
from trm_data.specs import check_name

DEFAULT_ROOT = "trm"
BUCKET_URL = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[A-Za-z0-9_=.+@-]+)*")
"""A root on a bucket; only characters that mean nothing to a listing or a URL."""


@dataclass(frozen=True)
class Layout:
    """Paths under one root.

    Args:
        root: An absolute local folder; it need not exist yet.
        url: `gs://bucket/prefix` where datasets lie on a bucket; empty where they lie under `root`.
    """

    root: Path
    url: str = ""

    @property
    def place(self) -> str:
        """The root as a person knows it."""
        return self.url or str(self.root)

    @property
    def datasets(self) -> Path:
        """Folder with one folder a dataset."""
        return self.root / "datasets"

    @property
    def catalog(self) -> Path:
        """The DuckDB index over all datasets."""
        return self.root / "catalog.duckdb"

    @property
    def runs(self) -> Path:
        """Folder of training runs, by experiment."""
        return self.root / "runs"

    @property
    def results(self) -> Path:
        """Folder of the hive-partitioned result tables."""
        return self.root / "results"

    @property
    def cache(self) -> Path:
        """Compiled programs and decoded rows: anything here may be deleted."""
        return self.root / "cache"

    @property
    def generated(self) -> Path:
        """Generated puzzles that took long to make, for other builds of the same generator."""
        return self.cache / "generated"

    @property
    def locks(self) -> Path:
        """Files that builds hold locks on; never read."""
        return self.root / ".locks"

    def dataset(self, name: str) -> Path:
        """Folder of one dataset; of a root on a bucket, where its files are written before they are uploaded.

        Names cannot leave the root.

        Raises:
            SpecError: The name has a form that no dataset can have.
        """
        return self.datasets / check_name(name)


def resolve_root(root: str | os.PathLike[str] | None = None) -> Layout:
    """The layout under `root`, else under `TRM_ROOT`, else under `./trm`.

    Raises:
        SpecError: The root is neither a local folder nor `gs://bucket/prefix`.
    """
    chosen = os.fspath(root) if root is not None else os.environ.get("TRM_ROOT") or DEFAULT_ROOT
    if "://" in chosen or chosen.startswith("gs:"):
        url = chosen.rstrip("/")
        if not BUCKET_URL.fullmatch(url) or {".", ".."} & set(url.split("/")):
            raise SpecError(
                f"--root {chosen}: expected a local folder or gs://bucket/prefix, of letters, digits and _=.+@-"
            )
        return Layout(user_cache() / "roots" / hashlib.sha256(url.encode()).hexdigest()[:16], url)
    folder = Path(chosen).expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise SpecError(f"--root {chosen}: is a file, not a folder")
    return Layout(folder)


def require_local(layout: Layout, what: str) -> Layout:
    """The layout, if it is local.

    Args:
        layout: A root.
        what: What needs a local one, for the message.

    Raises:
        SpecError: It is on a bucket.
    """
    if layout.url:
        raise SpecError(
            f"--root {layout.url}: {what} needs a local folder in this version; datasets can be copied to one: "
            f"trm-data sync {layout.url} DIR NAME"
        )
    return layout


def user_cache() -> Path:
    """The folder that may be deleted at any time: `TRM_CACHE`, else `trm` in the user's cache directory (XDG)."""
    if chosen := os.environ.get("TRM_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "trm"
