"""Checks of one dataset, shard by shard: files, splits, digests, and rows shared between splits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from trm_data.catalog.read import SplitCatalog, read_split_catalog
from trm_data.errors import CorruptDatasetError
from trm_data.kinds.registry import load_kind
from trm_data.manifest import Manifest, ShardEntry
from trm_data.records import Rows
from trm_data.shards.reader import content_digest, group_digests, read_rows, split_digest
from trm_data.show.progress import Progress
from trm_data.specs import SPLITS, Split
from trm_data.storage.root import DatasetFolder, FileEntry
from trm_data.verify.rows import ShardRows, check_rows

HASHERS = 2
"""Number of threads that hash files."""
ROWS_AT_ONCE = 4096
"""Number of rows whose fingerprints are computed at a time."""


@dataclass
class _SplitContent:
    """Content of the shards of a split that have been read so far.

    Attributes:
        num_groups: Groups in them.
        num_rows: Rows in them.
        digests: Group digests of each shard.
        classes: Location of each symmetry class, and its hash.
        digest: Digest of all rows; empty if they cannot be read.
    """

    num_groups: int = 0
    num_rows: int = 0
    digests: list[bytes] = field(default_factory=list[bytes])
    classes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    digest: str = ""


class Checker:
    """Checks one dataset, and collects findings and counts.

    Attributes:
        problems: One line for each problem.
        notes: Known facts that are not failures.
        counts: How many items were checked, by type.
    """

    def __init__(self, folder: DatasetFolder, manifest: Manifest, progress: Progress) -> None:
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.counts = {"files": 0, "examples": 0, "puzzles checked": 0}
        self._folder = folder
        self._manifest = manifest
        self._progress = progress
        self._kind = load_kind(manifest.kind)
        self._prints: dict[Split, list[NDArray[np.uint64]]] = {}

    def check_files(self) -> None:
        """Check that every file in the manifest exists with the right bytes."""
        files = self._manifest.files
        self._progress.start("check files", len(files), "files")
        with ThreadPoolExecutor(HASHERS, thread_name_prefix="hash") as readers:
            for problem in readers.map(self._file_problem, files):
                self.problems += problem
                self.counts["files"] += 1
                self._progress.advance(1)

    def _file_problem(self, file: FileEntry) -> list[str]:
        """Return the problem of a file's bytes, if any; called from another thread."""
        try:
            self._folder.open(file, fresh=True)
        except CorruptDatasetError as error:
            return [str(error)]
        return []

    def check_content(self) -> None:
        """Check that rows, digests, puzzles, splits and catalog agree with each other and with the rules."""
        manifest = self._manifest
        stored = sum(shard.num_examples for split in manifest.splits.values() for shard in split.shards)
        self._progress.start("check rows", stored, "examples")
        digests: dict[str, str] = {}
        classes: dict[Split, list[tuple[str, str]]] = {}
        for split in SPLITS:
            if split not in manifest.splits:
                continue
            content = self._check_split(split)
            classes[split] = content.classes
            if content.digest:
                digests[split] = content.digest
        self._find_shared_rows()
        comparison = self._kind.compare_splits(manifest.spec, classes)
        self.problems += comparison.problems
        self.notes += comparison.notes
        if set(digests) == set(manifest.splits) and content_digest(digests) != manifest.content_digest:
            self.problems.append("the content digest is not the manifest's")

    def _check_split(self, split: Split) -> _SplitContent:
        """Check one split, shard by shard, up to the first unreadable shard."""
        content, shards = _SplitContent(), self._manifest.splits[split].shards
        with ThreadPoolExecutor(1, thread_name_prefix="read") as reader:
            coming = [reader.submit(self._read_shard, shard) for shard in shards[:1]]
            catalog = self._read_catalog(split)  # while the first shard is read
            if catalog is None:
                return content
            for number, shard in enumerate(shards, start=1):
                coming += [reader.submit(self._read_shard, later) for later in shards[number : number + 1]]
                try:
                    rows, digests, prints = coming.pop(0).result()
                except CorruptDatasetError as error:
                    self.problems.append(str(error))
                    return content
                content.digests.append(digests)
                self._prints.setdefault(split, []).append(prints)
                self._check_shard(split, catalog, shard, rows, content)
        self._check_totals(split, catalog, content)
        return content

    def _read_catalog(self, split: Split) -> SplitCatalog | None:
        """Return the catalog of a split; on an error add a problem and return None."""
        try:
            catalog = read_split_catalog(self._folder, self._manifest, split)
        except CorruptDatasetError as error:
            self.problems.append(str(error))
            return None
        stated = self._manifest.splits[split].num_groups
        if len(catalog.groups) != stated:
            self.problems.append(f"{split}: the catalog's puzzles are not the {stated:,} of the manifest")
            return None
        return catalog

    def _read_shard(self, shard: ShardEntry) -> tuple[Rows, bytes, NDArray[np.uint64]]:
        """Return a shard's rows, the digests of their groups, and a fingerprint of each row; called in a thread."""
        rows = read_rows(
            self._folder.open(shard),
            sequence_length=self._manifest.sequence_length,
            num_records=shard.num_records,
            num_examples=shard.num_examples,
        )
        return rows, group_digests(rows), row_prints(rows)

    def _check_shard(
        self, split: Split, catalog: SplitCatalog, shard: ShardEntry, rows: Rows, content: _SplitContent
    ) -> None:
        """Check the rows of a shard, and add them to the content of its split."""
        if shard.first_group != content.num_groups:
            self.problems.append(
                f"{split}: {shard.file} begins with group {content.num_groups}, the manifest says {shard.first_group}"
            )
        placed = ShardRows(split, catalog, rows, content.num_groups, content.num_rows)
        found = check_rows(self._manifest, self._kind, placed)
        self.problems += found.problems
        content.classes += found.classes
        content.num_groups += shard.num_groups
        content.num_rows += len(rows)
        self.counts["examples"] += len(rows)
        self.counts["puzzles checked"] += shard.num_groups
        for what, number in found.counts.items():
            self.counts[what] = self.counts.get(what, 0) + number
        self._progress.advance(len(rows))

    def _find_shared_rows(self) -> None:
        """Check that no row is in two splits, even if the kind knows no symmetries."""
        prints = {split: np.concatenate(parts) for split, parts in self._prints.items()}
        for split, other in combinations(prints, 2):
            rows, others = shared_rows(prints[split], prints[other])
            if len(rows):
                first = int(rows.argmin())
                text = (
                    f"{split} and {other} share {len(rows):,} equal rows (the first: {split} row {rows[first]}, "
                    f"{other} row {others[first]})"
                )
                (self.notes if self._kind.splits_may_share_rows else self.problems).append(text)

    def _check_totals(self, split: Split, catalog: SplitCatalog, content: _SplitContent) -> None:
        """Check groups, examples and digest of a completely read split against manifest and catalog."""
        manifest, entry, groups = self._manifest, self._manifest.splits[split], catalog.groups
        if content.num_groups != entry.num_groups:
            self.problems.append(
                f"{split}: has {content.num_groups:,} groups, the manifest says {entry.num_groups:,}"
            )
        expected = len(groups.inputs) if manifest.virtual else groups.num_examples
        if content.num_rows != expected:
            self.problems.append(f"{split}: has {content.num_rows:,} examples, the catalog says {expected:,}")
        for what, stated, counted in (
            ("examples", entry.num_examples, groups.num_examples),
            ("puzzles", entry.num_puzzles, groups.num_puzzles),
        ):
            if stated != counted:
                self.problems.append(
                    f"{split}: the manifest says {stated:,} {what}, the catalog has {counted:,}"
                )
        augmented = entry.num_puzzles > entry.num_groups
        virtual = manifest.spec_digest if manifest.virtual and augmented else ""
        content.digest = split_digest(manifest.sequence_length, content.digests, virtual=virtual)
        if content.digest != entry.digest:
            self.problems.append(
                f"{split}: the rows' digest is {content.digest[:12]}, the manifest says {entry.digest[:12]}"
            )


def row_prints(rows: Rows) -> NDArray[np.uint64]:
    """Return a fingerprint of each row, uint64 [N], from its input and label; different rows rarely share one.

    It is the sum modulo 2^64 of every cell times a random 64-bit number for its position. Two different rows have the
    same fingerprint with a probability of at most 2^-56.
    """
    width = rows.inputs.shape[1]
    draws = np.random.default_rng(0).integers(0, 2**64, (2, width), np.uint64, endpoint=False) | np.uint64(1)
    prints = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        prints[part] = rows.inputs[part].astype(np.uint64) @ draws[0]
        prints[part] += rows.labels[part].astype(np.uint64) @ draws[1]
    return prints


def shared_rows(
    prints: NDArray[np.uint64], others: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows whose fingerprints occur in another split, and their first places there."""
    _, rows, places = np.intersect1d(prints, others, return_indices=True)
    return rows, places
