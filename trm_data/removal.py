"""Removes a dataset, or what a killed build left of one: manifest first, then files, then rows of the SQL index."""

from __future__ import annotations

from trm_data.catalog.write import refresh_catalog
from trm_data.errors import CorruptDatasetError, DatasetNotFoundError
from trm_data.manifest import read_manifest
from trm_data.storage.datasets import dataset_names, remove_dataset
from trm_data.storage.root import Layout
from trm_data.storage.turn import turn_to_write, writing


def size_to_remove(layout: Layout, name: str) -> int:
    """Bytes that removing a dataset frees.

    Raises:
        DatasetNotFoundError: There is no such dataset.
    """
    try:
        return read_manifest(layout, name).size_bytes
    except DatasetNotFoundError:
        if not _unfinished(layout, name):
            raise
    except CorruptDatasetError:
        pass
    return sum(path.stat().st_size for path in layout.dataset(name).rglob("*") if path.is_file())


def _unfinished(layout: Layout, name: str) -> bool:
    """Whether a killed build left files of this name on this machine."""
    return layout.dataset(name).is_dir() and any(layout.dataset(name).iterdir())


def remove(layout: Layout, name: str) -> None:
    """Remove a dataset, or the files of an unfinished build.

    Raises:
        DatasetNotFoundError: There is no such dataset.
        BuildError: A build of it is running.
        BucketError: The bucket of the root cannot be reached, or refuses.
    """
    with writing(layout, name), turn_to_write(layout, name):
        try:
            files = read_manifest(layout, name).files
        except CorruptDatasetError:
            files = []
        except DatasetNotFoundError:
            if not _unfinished(layout, name):
                raise
            files = []
        remove_dataset(layout, name, files)
    if dataset_names(layout):
        refresh_catalog(layout)
    else:
        layout.catalog.unlink(missing_ok=True)
