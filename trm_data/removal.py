"""Removes a dataset: its manifest first, then its files, then its rows of the SQL index."""

from __future__ import annotations

from trm_data.catalog.write import refresh_catalog
from trm_data.errors import CorruptDatasetError
from trm_data.layout import Layout
from trm_data.manifest import read_manifest
from trm_data.store import dataset_names, remove_dataset
from trm_data.turn import turn_to_write, writing


def size_to_remove(layout: Layout, name: str) -> int:
    """Bytes that removing a dataset frees.

    Raises:
        DatasetNotFoundError: There is no such dataset.
    """
    return read_manifest(layout, name).size_bytes


def remove(layout: Layout, name: str) -> None:
    """Remove a dataset.

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
        remove_dataset(layout, name, files)
    if dataset_names(layout):
        refresh_catalog(layout)
    else:
        layout.catalog.unlink(missing_ok=True)
