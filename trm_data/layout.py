"""Where things live under the one root that all commands share.

    <root>/datasets/<name>/manifest.json, <split>-00003-of-00016.array_record, catalog/*.parquet
    <root>/catalog.duckdb
    <root>/runs/<group>/<experiment>/<run>/config.json, checkpoints/, metrics/*.parquet
    <root>/cache/, <root>/.locks/                          (may be deleted when nothing runs)
    <root>/results/<table>/experiment=<e>/run=<r>/*.parquet

The root is `--root`, else `TRM_ROOT`, else `./trm`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from trm_data.errors import SpecError
from trm_data.specs import check_name

DEFAULT_ROOT = "trm"


@dataclass(frozen=True)
class Layout:
    """Paths under one root.

    Args:
        root: An absolute local folder; it need not exist yet.
    """

    root: Path

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
    def locks(self) -> Path:
        """Files that builds hold locks on; never read."""
        return self.root / ".locks"

    def dataset(self, name: str) -> Path:
        """Folder of one dataset. Names cannot leave the root.

        Raises:
            SpecError: The name has a form that no dataset can have.
        """
        return self.datasets / check_name(name)


def resolve_root(root: str | os.PathLike[str] | None = None) -> Layout:
    """The layout under `root`, else under `TRM_ROOT`, else under `./trm`.

    Raises:
        SpecError: The root is a URL; only local folders can be a root.
    """
    chosen = os.fspath(root) if root is not None else os.environ.get("TRM_ROOT") or DEFAULT_ROOT
    if "://" in chosen:
        raise SpecError(f"--root {chosen}: only a local folder can be a root in this version")
    folder = Path(chosen).expanduser().absolute()
    if folder.exists() and not folder.is_dir():
        raise SpecError(f"--root {chosen}: is a file, not a folder")
    return Layout(folder)
