"""Rows of one split: picks, the row numbers of each group, and batches.

Neighbours: `stored` and `virtual` read rows, `plan` picks them, `dataset` joins both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Batch = dict[str, NDArray[np.uint8] | NDArray[np.int32]]
"""`inputs` uint8 [b, S], `labels` uint8 [b, S], `puzzle_identifiers` int32 [b]; of a mixture also `tasks` int32 [b]."""


@dataclass(frozen=True)
class Picks:
    """Selection of N rows.

    Attributes:
        groups: Group of each, int64 [N].
        augmentations: Position of the augmentation within the group, int64 [N].
        examples: Example within the augmentation, int64 [N].
    """

    groups: NDArray[np.int64]
    augmentations: NDArray[np.int64]
    examples: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.groups)

    def take(self, keep: NDArray[np.int64]) -> Picks:
        """Return the picks at the positions `keep`."""
        return Picks(self.groups[keep], self.augmentations[keep], self.examples[keep])


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

    def gather(self, picks: Picks, rows: NDArray[np.int64] | None) -> Batch:
        """Return the picked rows as a batch; `rows` are their numbers if the caller knows them."""
        ...
