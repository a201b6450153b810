"""Rows of a virtual dataset: base puzzles in memory, augmentations computed on demand.

The same augmenter as in a stored build makes the rows, so the batches equal those of the stored dataset, bit for bit.
Disk and memory hold only base puzzles, however many augmentations there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trm_data.catalog.read import read_groups
from trm_data.errors import CorruptDatasetError
from trm_data.kinds.registry import load_kind
from trm_data.loader.rows import Batch, GroupTable, Picks
from trm_data.manifest import Manifest
from trm_data.records import Augmentations, Rows
from trm_data.shards.reader import read_rows
from trm_data.specs import Split
from trm_data.storage.root import DatasetFolder
from trm_data.symmetry.base import Augmenter


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

    def gather(self, picks: Picks, rows: NDArray[np.int64] | None) -> Batch:
        """Augment base puzzles; `rows` is ignored, because the picks have the same information."""
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
    rows = Rows.concatenate(
        [
            read_rows(
                folder.open(shard),
                sequence_length=manifest.sequence_length,
                num_records=shard.num_records,
                num_examples=shard.num_examples,
            )
            for shard in manifest.splits[split].shards
        ]
    )
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
