"""Checks a dataset against its manifest, and its puzzles against the rules, and says all that is wrong.

Nothing is trusted but the manifest's own digest: files are hashed, rows decoded and counted, the content
digest computed again, every puzzle checked by its kind, the splits compared for shared symmetry classes, and
the catalog files compared with the rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trm_data.catalog.write import CATALOG_FOLDER
from trm_data.errors import CorruptDatasetError
from trm_data.kinds.base import load_kind
from trm_data.layout import Layout
from trm_data.manifest import Manifest, SplitEntry, read_manifest
from trm_data.progress import NoProgress, Progress
from trm_data.records import Rows
from trm_data.shards.digest import content_digest, group_digests, split_digest
from trm_data.shards.reader import check_file, read_blocks
from trm_data.specs import SPLITS, Split


@dataclass(frozen=True)
class Verification:
    """What `verify_dataset` found.

    Attributes:
        name: The dataset.
        problems: One line for each thing that is wrong; none if the dataset is whole.
        counts: How much was checked, by what.
        seconds: How long it took.
    """

    name: str
    problems: list[str]
    counts: dict[str, int] = field(default_factory=dict[str, int])
    seconds: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify_dataset(layout: Layout, name: str, progress: Progress | None = None) -> Verification:
    """Check everything about one dataset.

    Raises:
        DatasetNotFoundError: There is no such dataset.
    """
    begun = time.perf_counter()
    progress = progress or NoProgress()
    try:
        manifest = read_manifest(layout, name)
    except CorruptDatasetError as error:
        return Verification(name, [str(error)])
    counts = {"files": 0, "examples": 0, "puzzles solved": 0}
    problems = list(_check_files(layout, manifest, counts, progress))
    if not problems:
        problems = list(_check_content(layout, manifest, counts, progress))
    return Verification(name, problems, counts, time.perf_counter() - begun)


def _check_files(
    layout: Layout, manifest: Manifest, counts: dict[str, int], progress: Progress
) -> Iterator[str]:
    """Every file the manifest names is there, with the bytes it had."""
    folder = layout.dataset(manifest.name)
    shards = [shard for split in manifest.splits.values() for shard in split.shards]
    progress.start("check files", len(shards) + len(manifest.catalog), "files")
    for file in [*shards, *manifest.catalog]:
        try:
            check_file(folder / file.file, size_bytes=file.size_bytes, sha256=file.sha256)
        except CorruptDatasetError as error:
            yield str(error)
        counts["files"] += 1
        progress.advance(1)


def _check_content(
    layout: Layout, manifest: Manifest, counts: dict[str, int], progress: Progress
) -> Iterator[str]:
    """Rows, digests, puzzles, splits and catalog agree with each other and with the rules."""
    kind = load_kind(manifest.kind)
    classes: dict[str, str] = {}
    digests: dict[str, str] = {}
    progress.start("check rows", manifest.num_examples, "examples")
    for split in SPLITS:
        if split not in manifest.splits:
            continue
        entry = manifest.splits[split]
        try:
            rows, digests[split] = _read_split(layout, manifest, entry)
        except CorruptDatasetError as error:
            yield str(error)
            continue
        if digests[split] != entry.digest:
            yield f"{split}: the rows' digest is {digests[split][:12]}, the manifest says {entry.digest[:12]}"
        found = len(np.unique(rows.groups))
        if found != entry.num_groups:
            yield f"{split}: has {found:,} groups, the manifest says {entry.num_groups:,}"
        catalog, problems = _read_catalog(layout, manifest, split, rows)
        yield from problems
        if problems:  # which augmentation a row is, is then unknown
            continue
        checked = kind.check_rows(manifest.spec, split, rows, catalog.ks, catalog.elements)
        yield from checked.problems
        if checked.canonical_hashes and checked.canonical_hashes != catalog.canonical_hashes:
            yield f"{split}: canonical hashes in the catalog are not those of the puzzles"
        for group, hash_ in enumerate(checked.canonical_hashes):
            where = f"{split} group {group}"
            if classes.setdefault(hash_, where) != where:
                yield f"{where}: is equivalent under symmetry to {classes[hash_]}"
        counts["examples"] += len(rows)
        counts["puzzles solved"] += len(checked.canonical_hashes)
        progress.advance(len(rows))
    if set(digests) == set(manifest.splits) and content_digest(digests) != manifest.content_digest:
        yield "the content digest is not the manifest's"


def _read_split(layout: Layout, manifest: Manifest, entry: SplitEntry) -> tuple[Rows, str]:
    """All rows of a split, and their digest."""
    folder = layout.dataset(manifest.name)
    shards: list[Rows] = []
    for shard in entry.shards:
        blocks = read_blocks(
            folder / shard.file,
            sequence_length=manifest.sequence_length,
            num_records=shard.num_records,
            num_examples=shard.num_examples,
        )
        shards.append(Rows.concatenate(blocks))
    digest = split_digest(manifest.sequence_length, (group_digests(shard) for shard in shards))
    return Rows.concatenate(shards), digest


@dataclass(frozen=True)
class _CatalogOfSplit:
    """What the catalog files say of a split: a hash for each group, k and symmetry element for each row."""

    canonical_hashes: list[str]
    ks: NDArray[np.int32]
    elements: NDArray[np.int64]


def _read_catalog(
    layout: Layout, manifest: Manifest, split: Split, rows: Rows
) -> tuple[_CatalogOfSplit, list[str]]:
    """The catalog of a split, and where it does not fit the rows."""
    import duckdb

    folder = layout.dataset(manifest.name) / CATALOG_FOLDER
    with closing(duckdb.connect()) as connection:
        puzzles = connection.execute(
            "SELECT canonical_hash, num_augmentations FROM read_parquet(?) WHERE split = ? ORDER BY group_index",
            [str(folder / "puzzles.parquet"), split],
        ).fetchall()
        table = connection.execute(
            "SELECT group_index, augmentation, k, element FROM read_parquet(?) WHERE split = ? "
            "ORDER BY group_index, augmentation",
            [str(folder / "augmentations.parquet"), split],
        ).fetchnumpy()
    problems: list[str] = []
    groups, augmentations = table["group_index"], table["augmentation"]
    if not (np.array_equal(groups, rows.groups) and np.array_equal(augmentations, rows.augmentations)):
        problems.append(f"{split}: the catalog's augmentations are not those of the rows")
    stored = np.bincount(rows.groups).tolist() if len(rows) else []
    if [count for _, count in puzzles] != stored:
        problems.append(f"{split}: the catalog's puzzles are not those of the rows")
    hashes = [hash_ for hash_, _ in puzzles]
    found = _CatalogOfSplit(hashes, np.asarray(table["k"], np.int32), np.asarray(table["element"], np.int64))
    return found, problems
