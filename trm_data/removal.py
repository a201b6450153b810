"""Remove a dataset, or the files of a killed build: manifest first, then files, then rows of the SQL index."""

from __future__ import annotations

from trm_data.catalog.write import refresh_catalog
from trm_data.errors import CorruptDatasetError
from trm_data.manifest import find_manifest, read_manifest
from trm_data.storage.lease import leased, writing
from trm_data.storage.root import DatasetFolder, Layout


def size_to_remove(layout: Layout, name: str) -> int:
    """Return the bytes that removing a dataset frees."""
    folder = _folder(layout, name)
    try:
        manifest = find_manifest(folder)
    except CorruptDatasetError:
        manifest = None
    if manifest is not None:
        return manifest.size_bytes
    return folder.size_bytes


def _folder(layout: Layout, name: str) -> DatasetFolder:
    """Return the dataset's folder, also under another of its names; for a killed build, only under the exact name."""
    folder = layout.dataset(name)
    try:
        if _unfinished(folder) or find_manifest(folder) is not None:
            return folder
    except CorruptDatasetError:
        return folder
    return layout.dataset(read_manifest(layout, name).name)


def _unfinished(folder: DatasetFolder) -> bool:
    """Return whether a killed build left files of this name, on this machine or on the bucket."""
    return (folder.here.is_dir() and any(folder.here.iterdir())) or folder.size_bytes > 0


def remove(layout: Layout, name: str) -> None:
    """Remove a dataset, or the files of an unfinished build.

    Raises:
        DatasetNotFoundError: There is no such dataset.
        BuildError: A build of it is running.
        BucketError: The bucket of the root is unreachable or refuses.
    """
    folder = _folder(layout, name)
    with writing(folder), leased(folder) as lease:
        folder.remove(lease)
    if layout.dataset_names():
        refresh_catalog(layout)
    else:
        layout.catalog.unlink(missing_ok=True)
