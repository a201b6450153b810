"""Copy datasets from one root to another: files first, the manifest last.

Every file is checked by sha256 at the source and at the target. Complete files at the target are skipped, so an
interrupted copy resumes. Another dataset with the same name is never overwritten.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from trm_data.building.recorded import copy_record
from trm_data.card import CARD
from trm_data.catalog.write import refresh_catalog
from trm_data.errors import (
    BuildError,
    CorruptDatasetError,
    ForeignDatasetError,
    QueryError,
    SpecError,
)
from trm_data.manifest import Manifest, ShardEntry, copy_manifest, find_manifest, read_manifest
from trm_data.shards.naming import sidecar_name
from trm_data.show.progress import NoProgress, Progress
from trm_data.storage.copy import copy_files
from trm_data.storage.lease import leased, writing
from trm_data.storage.root import DatasetFolder, Layout, UnpublishedLease


@dataclass(frozen=True)
class Synced:
    """Result of copying one dataset.

    Attributes:
        name: The dataset.
        content_digest: Digest of its rows.
        unchanged: Whether the target already had it, complete.
        files_copied: Number of copied files.
        files_kept: Number of files that the target already had.
        bytes_copied: Bytes of the copied files.
        seconds: Duration (s).
    """

    name: str
    content_digest: str
    unchanged: bool
    files_copied: int = 0
    files_kept: int = 0
    bytes_copied: int = 0
    seconds: float = 0.0


def sync_datasets(
    source: Layout, target: Layout, names: list[str] | None = None, progress: Progress | None = None
) -> tuple[list[Synced], list[str]]:
    """Copy datasets.

    Args:
        source: Root to copy from.
        target: Root to copy to.
        names: Names of the datasets; None or empty copies all.
            progress: Shows the progress of every dataset.

        Returns:
            The result for each dataset, and warnings.

    Raises:
        SpecError: The roots are the same, or the target has another dataset of that name.
        DatasetNotFoundError: The source has no such dataset.
        CorruptDatasetError: A file of the source does not match its manifest.
        BuildError: Writing failed, or a build of this dataset is running at the target.
        BucketError: A bucket is unreachable or refuses.
    """
    progress = progress or NoProgress()
    if source.place == target.place:
        raise SpecError(f"{source.place}: source and target are the same root")
    warnings: list[str] = []
    manifests: list[Manifest] = []
    for name in names or source.dataset_names():
        try:
            manifests.append(read_manifest(source, name))
        except ForeignDatasetError as error:
            if names:
                raise
            warnings.append(f"left out: {error}")
    done: list[Synced] = []
    for manifest in manifests:
        name = manifest.name
        done.append(_sync(source.dataset(name), target.dataset(name), manifest, progress))
        warnings += copy_record(source, target, name)
        try:
            warnings += refresh_catalog(target, changed=manifest.name)
        except (OSError, QueryError) as error:
            warnings.append(f"the SQL index was not updated ({error}); the next trm-data sql does it")
    return done, warnings


def _sync(source: DatasetFolder, target: DatasetFolder, manifest: Manifest, progress: Progress) -> Synced:
    """Copy one dataset, unless the target has it."""
    begun, name = time.perf_counter(), manifest.name
    with writing(target):
        if _is_there(target, manifest):
            return Synced(name, manifest.content_digest, unchanged=True, files_kept=len(manifest.files))
        with leased(target) as lease:
            if _is_there(target, manifest):  # written by the previous holder of the lease
                return Synced(name, manifest.content_digest, unchanged=True, files_kept=len(manifest.files))
            target.withdraw_manifest(lease)
            lease = UnpublishedLease(target, lease)
            progress.start(f"copy {name}", manifest.size_bytes, "bytes")
            copied = copy_files(source, target, manifest.files, progress, lease.check)
            # Files that no manifest names, but that rebuilds and readers use if they exist.
            notes = [sidecar_name(file.file) for file in manifest.files if isinstance(file, ShardEntry)]
            copy_files(source, target, [*notes, CARD], NoProgress(), lease.check)
            kept = (name for file in manifest.files for name in (file.file, sidecar_name(file.file)))
            target.remove_leftovers(kept, lease.check)
            lease.check()
            if problems := target.overwritten(manifest.files):
                raise BuildError(f"{problems[0]}; another program writes there. Stop it and sync again")
            copy_manifest(source, target, manifest)
    return Synced(
        name,
        manifest.content_digest,
        unchanged=False,
        files_copied=copied.files_copied,
        files_kept=copied.files_kept,
        bytes_copied=copied.bytes_copied,
        seconds=time.perf_counter() - begun,
    )


def _is_there(target: DatasetFolder, manifest: Manifest) -> bool:
    """Return whether the target has this dataset, complete."""
    try:
        there = find_manifest(target)
    except CorruptDatasetError as error:
        raise SpecError(f"{error}; it is not overwritten. Remove it first") from error
    if there is None:
        return False
    if there.content_digest != manifest.content_digest or there.spec_digest != manifest.spec_digest:
        raise SpecError(
            f"{target.place}: is another dataset with this name (digest {there.content_digest[:12]}, to copy "
            f"{manifest.content_digest[:12]}); remove it first: trm-data rm {target.name} --root {target.store.place}"
        )
    return not target.damaged(there.files)
