"""Rows of one split: picks, the row numbers of each group, and batches.

`StoredRows` reads rows of shards, in memory while they fit a budget, else from decoded files that are mapped.
`VirtualRows` computes augmentations of base puzzles when a batch needs them. `plan` picks rows, `dataset` joins both.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trm_data.catalog.read import read_groups
from trm_data.errors import CorruptDatasetError, SpecError
from trm_data.kernel import kernel
from trm_data.kinds.registry import code_of, load_kind
from trm_data.manifest import Manifest, SplitEntry
from trm_data.records import Augmentations, Picks, Rows, group_counts
from trm_data.shards.reader import GROUP_DIGEST_BYTES, group_digests, read_rows, split_digest
from trm_data.specs import Split
from trm_data.storage.root import DatasetFolder
from trm_data.symmetry.base import Augmenter

Batch = dict[str, NDArray[np.uint8] | NDArray[np.int32]]
"""`inputs` uint8 [b, S], `labels` uint8 [b, S], `puzzle_identifiers` int32 [b]; of a mixture also `tasks` int32 [b]."""


@dataclass(frozen=True)
class GroupTable:
    """Row ranges of G groups.

    Attributes:
        first_rows: First row, int64 [G].
        num_augmentations: Number of augmentations, the original included, int64 [G].
        num_examples: Examples of each augmentation (equal for all augmentations of a group), int64 [G].
    """

    first_rows: NDArray[np.int64]
    num_augmentations: NDArray[np.int64]
    num_examples: NDArray[np.int64]

    @property
    def epoch_examples(self) -> int:
        """Examples of one epoch: one augmentation of every group."""
        return int(self.num_examples.sum())

    def take(self, groups: NDArray[np.int64]) -> GroupTable:
        """Return the table of the groups with these numbers."""
        return GroupTable(self.first_rows[groups], self.num_augmentations[groups], self.num_examples[groups])

    def rows(self, picks: Picks) -> NDArray[np.int64]:
        """Return the row number of each pick, int64 [N]."""
        offsets = picks.augmentations * self.num_examples[picks.groups] + picks.examples
        return self.first_rows[picks.groups] + offsets

    def picks(self, rows: NDArray[np.int64]) -> Picks:
        """Return the pick of each row number; the inverse of `rows`."""
        groups = np.searchsorted(self.first_rows, rows, side="right") - 1
        augmentations, examples = np.divmod(rows - self.first_rows[groups], self.num_examples[groups])
        return Picks(groups, augmentations, examples)


class RowReader(Protocol):
    """Reader of a dataset's rows."""

    def gather(self, picks: Picks) -> Batch:
        """Return the picked rows as a batch."""
        ...


@dataclass(frozen=True)
class VirtualRows:
    """Computed rows.

    Attributes:
        augmenter: Computes the rows.
        augmentations: Augmentations of each group.
        first_identifiers: Identifier of each group's original, int32 [G].
        identifier_each: Whether every augmentation has its own identifier.
        sequence_length: Cells S of a row.
    """

    augmenter: Augmenter
    augmentations: Augmentations
    first_identifiers: NDArray[np.int32]
    identifier_each: bool
    sequence_length: int

    def gather(self, picks: Picks) -> Batch:
        """Augment base puzzles."""
        shape = (len(picks), self.sequence_length)
        inputs, labels = np.empty(shape, np.uint8), np.empty(shape, np.uint8)
        ks = self.augmentations.ks(picks.groups, picks.augmentations)
        self.augmenter.fill(picks.groups, ks, picks.examples, inputs, labels)
        identifiers = self.first_identifiers[picks.groups]
        if self.identifier_each:
            identifiers = identifiers + picks.augmentations.astype(np.int32)
        return {"inputs": inputs, "labels": labels, "puzzle_identifiers": identifiers}


def open_virtual(folder: DatasetFolder, manifest: Manifest, split: Split) -> tuple[GroupTable, VirtualRows]:
    """Return the base puzzles of a split and their augmenter."""
    if manifest.spec.kind_code and manifest.spec.kind_code != code_of(manifest.kind):
        raise SpecError(
            f"{manifest.name}: its rows are computed by the kind {manifest.kind}, whose code has changed since the "
            "build. Install the code that built it, or build it again under another name"
        )
    rows = Rows.concatenate(list(_read_shards(folder, manifest, manifest.splits[split])))
    groups = read_groups(folder, manifest, split)
    if len(rows) != len(groups.inputs):
        raise CorruptDatasetError(f"{manifest.name} {split}: the catalog's puzzles are not those of the rows")
    kind = load_kind(manifest.kind)
    counts = groups.rows_per_group
    table = GroupTable(
        np.cumsum(counts) - counts,
        groups.augmentations.counts.astype(np.int64),
        groups.examples_per_augmentation,
    )
    base = replace(groups, inputs=rows.inputs, labels=rows.labels)
    reader = VirtualRows(
        kind.augmenter(manifest.spec, split, base),
        groups.augmentations,
        groups.first_identifiers,
        kind.geometry(manifest.spec).identifier_each,
        manifest.sequence_length,
    )
    return table, reader


@dataclass(frozen=True)
class StoredRows:
    """N decoded rows of S cells.

    Attributes:
        rows: All rows, in memory or memory-mapped.
        groups: Row ranges of the groups.
    """

    rows: Rows
    groups: GroupTable

    def gather(self, picks: Picks) -> Batch:
        """Copy rows into a batch."""
        rows = self.groups.rows(picks)
        shape = (len(rows), self.rows.inputs.shape[1])
        inputs, labels = np.empty(shape, np.uint8), np.empty(shape, np.uint8)
        identifiers = np.empty(len(rows), np.int32)
        stored = self.rows
        _gather(stored.inputs, stored.labels, stored.puzzle_identifiers, rows, inputs, labels, identifiers)
        return {"inputs": inputs, "labels": labels, "puzzle_identifiers": identifiers}


@kernel
def _gather(
    all_inputs: NDArray[np.uint8],
    all_labels: NDArray[np.uint8],
    all_identifiers: NDArray[np.int32],
    rows: NDArray[np.int64],
    inputs: NDArray[np.uint8],
    labels: NDArray[np.uint8],
    identifiers: NDArray[np.int32],
) -> None:
    for slot in range(rows.shape[0]):
        row = rows[slot]
        for cell in range(inputs.shape[1]):
            inputs[slot, cell] = all_inputs[row, cell]
        for cell in range(inputs.shape[1]):
            labels[slot, cell] = all_labels[row, cell]
        identifiers[slot] = all_identifiers[row]


def open_stored(
    folder: DatasetFolder, manifest: Manifest, split: Split, budget_bytes: int
) -> tuple[GroupTable, StoredRows]:
    """Return the rows of a split, checked against the manifest."""
    entry = manifest.splits[split]
    row_bytes = 2 * manifest.sequence_length + 16
    if entry.num_examples * row_bytes <= budget_bytes:
        rows = Rows.concatenate(list(_read_shards(folder, manifest, entry)))
        _check_digest(folder, manifest, entry, group_digests(rows), split)
    else:
        rows = _mapped_rows(folder, manifest, entry, split)
    try:
        groups = GroupTable(*group_counts(rows))
    except ValueError as error:
        raise CorruptDatasetError(f"{manifest.name} {split}: {error}") from error
    return groups, StoredRows(rows, groups)


def _read_shards(folder: DatasetFolder, manifest: Manifest, entry: SplitEntry) -> Iterator[Rows]:
    """Yield the rows of each shard, after checking its file."""
    for shard in entry.shards:
        yield read_rows(
            folder.open(shard),
            sequence_length=manifest.sequence_length,
            num_records=shard.num_records,
            num_examples=shard.num_examples,
        )


def _check_digest(
    folder: DatasetFolder, manifest: Manifest, entry: SplitEntry, digests: bytes, split: str
) -> None:
    found = split_digest(manifest.sequence_length, [digests])
    if found != entry.digest or len(digests) != GROUP_DIGEST_BYTES * entry.num_groups:
        raise CorruptDatasetError(
            f"{folder.place}: the rows of {split} are not those of the manifest (digest {found[:12]})"
        )


_CELLS = ("inputs", "labels")
_COLUMNS = (*_CELLS, "puzzle_identifiers", "groups", "augmentations", "examples")


def _mapped_rows(folder: DatasetFolder, manifest: Manifest, entry: SplitEntry, split: str) -> Rows:
    """Memory-map rows from decoded files named by the split's digest, which the first process writes.

    Shards and rows are checked at every opening, as for rows in memory. Other rows are decoded again.
    """
    for shard in entry.shards:
        folder.open(shard)
    decoded = folder.store.machine / "cache" / "rows" / entry.digest
    decoded.mkdir(parents=True, exist_ok=True)
    with (decoded / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(OSError, ValueError, CorruptDatasetError):  # missing, cut off, or damaged
            rows = _map_files(decoded)
            _check_digest(folder, manifest, entry, group_digests(rows), split)
            return rows
        _decode_to_files(folder, manifest, entry, split, decoded)
        return _map_files(decoded)


def _map_files(decoded: Path) -> Rows:
    return Rows(**{column: np.load(decoded / f"{column}.npy", mmap_mode="r") for column in _COLUMNS})


def _decode_to_files(
    folder: DatasetFolder, manifest: Manifest, entry: SplitEntry, split: str, decoded: Path
) -> None:
    """Decode shard by shard, to hold only one shard in memory."""
    count = entry.num_examples
    cells = (count, manifest.sequence_length)
    files = {
        column: np.lib.format.open_memmap(
            decoded / f"{column}.npy",
            mode="w+",
            dtype=np.uint8 if column in _CELLS else np.int32,
            shape=cells if column in _CELLS else (count,),
        )
        for column in _COLUMNS
    }
    start = 0
    digests: list[bytes] = []
    for rows in _read_shards(folder, manifest, entry):
        digests.append(group_digests(rows))
        for column, file in files.items():
            file[start : start + len(rows)] = getattr(rows, column)
        start += len(rows)
    for file in files.values():
        file.flush()
    _check_digest(folder, manifest, entry, b"".join(digests), split)
