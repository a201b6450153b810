"""Opens one split of a built dataset: checked against its manifest, decoded, ready to be gathered from.

Rows stay in memory while they fit a budget. A larger split is decoded once into a file under the root's
cache and mapped, so the processes of a machine share it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import CorruptDatasetError, SpecError
from trm_data.layout import Layout, resolve_root
from trm_data.manifest import Manifest, SplitEntry, read_manifest
from trm_data.records import Rows
from trm_data.shards.digest import GROUP_DIGEST_BYTES, group_digests, split_digest
from trm_data.shards.files import file_sha256, write_json
from trm_data.shards.reader import check_file, read_blocks

RESIDENT_BUDGET_BYTES = 1_000_000_000


@dataclass(frozen=True)
class GroupTable:
    """Where the rows of each group lie. G groups.

    Attributes:
        first_rows: First row, int64 [G].
        num_augmentations: Augmentations, the original included, int64 [G].
        num_examples: Examples of each augmentation (the same for all of a group's), int64 [G].
    """

    first_rows: NDArray[np.int64]
    num_augmentations: NDArray[np.int64]
    num_examples: NDArray[np.int64]

    @property
    def epoch_examples(self) -> int:
        """Examples of one epoch: one augmentation of every group."""
        return int(self.num_examples.sum())


@dataclass(frozen=True)
class Dataset:
    """One split, decoded. N rows of S cells.

    Attributes:
        manifest: The manifest of the whole dataset.
        split: Which split.
        inputs: Tokens, uint8 [N, S].
        labels: Tokens, uint8 [N, S].
        puzzle_identifiers: int32 [N].
        groups: Where each group's rows are.
        row_groups: Group of each row, int32 [N].
        row_augmentations: Augmentation of each row within its group, int32 [N].
    """

    manifest: Manifest
    split: str
    inputs: NDArray[np.uint8] = field(repr=False)
    labels: NDArray[np.uint8] = field(repr=False)
    puzzle_identifiers: NDArray[np.int32] = field(repr=False)
    row_groups: NDArray[np.int32] = field(repr=False)
    row_augmentations: NDArray[np.int32] = field(repr=False)
    groups: GroupTable = field(repr=False)

    def __len__(self) -> int:
        return len(self.inputs)

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, split={self.split!r}, examples={len(self):,}, "
            f"groups={len(self.groups.first_rows):,}, sequence_length={self.sequence_length})"
        )

    @property
    def name(self) -> str:
        """Name of the dataset."""
        return self.manifest.name

    @property
    def sequence_length(self) -> int:
        """Cells S of a row."""
        return self.manifest.sequence_length

    @property
    def content_digest(self) -> str:
        """Digest of the whole dataset's rows."""
        return self.manifest.content_digest

    @property
    def split_digest(self) -> str:
        """Digest of this split's rows."""
        return self.manifest.splits[self.split].digest

    @property
    def epoch_examples(self) -> int:
        """Examples of one epoch: one augmentation of every group."""
        return self.groups.epoch_examples


def open_dataset(
    name: str,
    root: str | os.PathLike[str] | None = None,
    split: str = "train",
    *,
    budget_bytes: int = RESIDENT_BUDGET_BYTES,
) -> Dataset:
    """Open one split of a dataset.

    Args:
        name: A built dataset (`trm-data list`).
        root: Folder of everything; else `$TRM_ROOT`, else `./trm`.
        split: `train`, `validation` or `test`.
        budget_bytes: Decoded rows above this are mapped from a file instead of held in memory.

    Raises:
        DatasetNotFoundError: There is no such dataset.
        SpecError: It has no such split.
        CorruptDatasetError: A file is missing or changed; the message says which.
    """
    layout = resolve_root(root)
    manifest = read_manifest(layout, name)
    if split not in manifest.splits:
        raise SpecError(f"dataset {name} has no split {split!r}: it has {', '.join(manifest.splits)}")
    entry = manifest.splits[split]
    row_bytes = 2 * manifest.sequence_length + 16
    if entry.num_examples * row_bytes <= budget_bytes:
        check_shards(layout, manifest, entry)
        rows = Rows.concatenate(list(_read_shards(layout, manifest, entry)))
        _check_digest(layout, manifest, entry, group_digests(rows), split)
    else:
        rows = _mapped_rows(layout, manifest, entry, split)
    return Dataset(
        manifest=manifest,
        split=split,
        inputs=rows.inputs,
        labels=rows.labels,
        puzzle_identifiers=rows.puzzle_identifiers,
        row_groups=rows.groups,
        row_augmentations=rows.augmentations,
        groups=_group_table(rows, f"{name} {split}"),
    )


def _read_shards(layout: Layout, manifest: Manifest, entry: SplitEntry) -> Iterator[Rows]:
    """Rows of each shard; `check_shards` comes first."""
    folder = layout.dataset(manifest.name)
    for shard in entry.shards:
        yield Rows.concatenate(
            read_blocks(
                folder / shard.file,
                sequence_length=manifest.sequence_length,
                num_records=shard.num_records,
                num_examples=shard.num_examples,
            )
        )


def _check_digest(layout: Layout, manifest: Manifest, entry: SplitEntry, digests: bytes, split: str) -> None:
    found = split_digest(manifest.sequence_length, [digests])
    if found != entry.digest or len(digests) != GROUP_DIGEST_BYTES * entry.num_groups:
        raise CorruptDatasetError(
            f"{layout.dataset(manifest.name)}: the rows of {split} are not those of the manifest (digest {found[:12]})"
        )


def _group_table(rows: Rows, what: str) -> GroupTable:
    """Where each group lies; checks that every augmentation of a group has as many examples."""
    new_group = np.concatenate([[True], np.diff(rows.groups) != 0])
    first_rows = np.flatnonzero(new_group)
    sizes = np.diff(np.append(first_rows, len(rows)))
    last_rows = first_rows + sizes - 1
    num_augmentations = rows.augmentations[last_rows].astype(np.int64) + 1
    num_examples = sizes // num_augmentations
    offsets = np.arange(len(rows)) - np.repeat(first_rows, sizes)
    per_row = np.repeat(num_examples, sizes)
    if not (
        np.array_equal(sizes, num_augmentations * num_examples)
        and np.array_equal(rows.augmentations, offsets // per_row)
        and np.array_equal(rows.examples, offsets % per_row)
    ):
        raise CorruptDatasetError(f"{what}: the augmentations of a group differ in their number of examples")
    return GroupTable(first_rows.astype(np.int64), num_augmentations, num_examples.astype(np.int64))


_CELLS = ("inputs", "labels")
_COLUMNS = (*_CELLS, "puzzle_identifiers", "groups", "augmentations", "examples")


def _mapped_rows(layout: Layout, manifest: Manifest, entry: SplitEntry, split: str) -> Rows:
    """Rows mapped from decoded files named by the split's digest, which the first process writes.

    The shards are checked at every opening, as for resident rows; decoded files whose bytes are not those that
    were written are decoded again.
    """
    check_shards(layout, manifest, entry)
    folder = layout.cache / "rows" / entry.digest
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        complete = folder / "complete.json"
        if not complete.is_file() or json.loads(complete.read_text()) != _file_digests(folder):
            complete.unlink(missing_ok=True)
            _decode_to_files(layout, manifest, entry, split, folder)
            write_json(complete, _file_digests(folder))
    return Rows(**{column: np.load(folder / f"{column}.npy", mmap_mode="r") for column in _COLUMNS})


def _file_digests(folder: Path) -> dict[str, str]:
    """sha256 of each decoded file that is there."""
    paths = [folder / f"{column}.npy" for column in _COLUMNS]
    return {path.name: file_sha256(path) for path in paths if path.is_file()}


def check_shards(layout: Layout, manifest: Manifest, entry: SplitEntry) -> None:
    """Check that the shards of a split are the files that were written.

    Raises:
        CorruptDatasetError: One is missing or changed.
    """
    folder = layout.dataset(manifest.name)
    for shard in entry.shards:
        check_file(folder / shard.file, size_bytes=shard.size_bytes, sha256=shard.sha256)


def _decode_to_files(layout: Layout, manifest: Manifest, entry: SplitEntry, split: str, folder: Path) -> None:
    """Decode shard by shard, so that memory holds one shard at a time."""
    count = entry.num_examples
    cells = (count, manifest.sequence_length)
    files = {
        column: np.lib.format.open_memmap(
            folder / f"{column}.npy",
            mode="w+",
            dtype=np.uint8 if column in _CELLS else np.int32,
            shape=cells if column in _CELLS else (count,),
        )
        for column in _COLUMNS
    }
    start = 0
    digests: list[bytes] = []
    for rows in _read_shards(layout, manifest, entry):
        digests.append(group_digests(rows))
        for column, file in files.items():
            file[start : start + len(rows)] = getattr(rows, column)
        start += len(rows)
    for file in files.values():
        file.flush()
    _check_digest(layout, manifest, entry, b"".join(digests), split)
