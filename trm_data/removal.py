"""Removes a dataset, or what a killed build left of one: manifest first, then files, then rows of the SQL index."""

from __future__ import annotations

from trm_data.catalog.write import refresh_catalog
from trm_data.errors import CorruptDatasetError, DatasetNotFoundError
from trm_data.manifest import read_manifest
from trm_data.storage.datasets import DatasetFolder
from trm_data.storage.root import Layout
from trm_data.storage.turn import turn_to_write, writing


def size_to_remove(layout: Layout, name: str) -> int:
    """Bytes that removing a dataset frees.

    Raises:
        DatasetNotFoundError: There is no such dataset.
    """
    folder = layout.dataset(name)
    try:
        return read_manifest(layout, name).size_bytes
    except DatasetNotFoundError:
        if not _unfinished(folder):
            raise
    except CorruptDatasetError:
        pass
    return sum(path.stat().st_size for path in folder.here.rglob("*") if path.is_file())


def _unfinished(folder: DatasetFolder) -> bool:
    """Whether a killed build left files of this name on this machine."""
    return folder.here.is_dir() and any(folder.here.iterdir())


def remove(layout: Layout, name: str) -> None:
    """Remove a dataset, or the files of an unfinished build.

    Raises:
        DatasetNotFoundError: There is no such dataset.
        BuildError: A build of it is running.
        BucketError: The bucket of the root cannot be reached, or refuses.
    """
    folder = layout.dataset(name)
    with writing(folder), turn_to_write(folder):
        try:
            files = read_manifest(layout, name).files
        except CorruptDatasetError:
            files = []
        except DatasetNotFoundError:
            if not _unfinished(folder):
                raise
            files = []
        folder.remove(files)
    if layout.dataset_names():
        refresh_catalog(layout)
    else:
        layout.catalog.unlink(missing_ok=True)
