"""Columns passed between the stages of a build: chosen puzzles, rows, rejects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.specs import Split

PART_BYTES = 1 << 22
"""Approximate bytes of cells that a stage holds in memory at a time."""


def part_examples(sequence_length: int) -> int:
    """Return the approximate number of rows of S cells, inputs and labels, that a stage holds in memory at a time."""
    return max(256, PART_BYTES // (2 * sequence_length))


@dataclass(frozen=True)
class Reject:
    """A rejected row of a source, and the reason."""

    file: str
    line: int
    reason: str


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
class Augmentations:
    """The augmentations of G groups, as k of their keyed permutations; position 0 is always k = 0, the original.

    Groups whose k are 0, 1, 2, ... are regular: only their count is stored.

    Attributes:
        counts: Number of augmentations of each group, the original included, int32 [G].
        offsets: Start of an irregular group's k in `listed`, -1 for a regular group, int64 [G].
        listed: The k of all irregular groups, int32 [M].
    """

    counts: NDArray[np.int32]
    offsets: NDArray[np.int64]
    listed: NDArray[np.int32]

    @staticmethod
    def regular(num_groups: int, aug: int) -> Augmentations:
        """Return `aug` augmentations of every group besides the original."""
        counts = np.full(num_groups, aug + 1, np.int32)
        return Augmentations(counts, np.full(num_groups, -1, np.int64), np.empty(0, np.int32))

    @staticmethod
    def of_lists(lists: Sequence[NDArray[np.int32]]) -> Augmentations:
        """Return the augmentations for lists with the k of each group."""
        counts = np.array([len(ks) for ks in lists], np.int32)
        offsets = np.full(len(lists), -1, np.int64)
        listed: list[NDArray[np.int32]] = []
        end = 0
        for group, ks in enumerate(lists):
            if not np.array_equal(ks, np.arange(len(ks))):
                offsets[group] = end
                listed.append(ks.astype(np.int32))
                end += len(ks)
        return Augmentations(counts, offsets, np.concatenate(listed) if listed else np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.counts)

    def numbered(self, groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return group and position of each of the P augmentations of `groups`, in order, both int64 [P]."""
        counts = self.counts[groups].astype(np.int64)
        return np.repeat(groups, counts), _positions(counts)

    def ks(self, groups: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the k at each position of each group, int64 [N]."""
        if not len(self.listed):
            return positions
        offsets = self.offsets[groups]
        listed = offsets >= 0
        ks = positions.copy()
        ks[listed] = self.listed[offsets[listed] + positions[listed]]
        return ks

    def slice(self, start: int, stop: int) -> Augmentations:
        """Return the augmentations of the groups `start` to `stop`, without the k of other groups."""
        counts, offsets = self.counts[start:stop], self.offsets[start:stop]
        listed = offsets >= 0
        if not listed.any():
            return Augmentations(counts, offsets, self.listed[:0])
        first, last = int(offsets[listed].min()), int((offsets + counts)[listed].max())
        return Augmentations(counts, np.where(listed, offsets - first, -1), self.listed[first:last])


@dataclass(frozen=True)
class Groups:
    """The base puzzles of one split, in group order: G groups with E examples in all, S cells.

    Attributes:
        inputs: Tokens of the originals' inputs, before any translation, uint8 [E, S].
        labels: Tokens of their labels, uint8 [E, S].
        first_examples: First example of each group, and E, int64 [G + 1].
        augmentations: The augmentations of each group.
        keys: Number of each puzzle in keyed draws, int64 [G].
        first_identifiers: Row of the puzzle-embedding table of each group's original, int32 [G].
        canonical_hashes: Hash of each puzzle's canonical form under the symmetries of its kind.
        source_files: Name of each puzzle's source.
        source_rows: Line in the file (from 1), or index in the generator's stream (from 0), int64 [G].
        facts: Further columns of the catalog's table `puzzles` (rating, clues, path length, task).
        imported: All rows, if they are imported and only stored; None if an augmenter makes them.
    """

    inputs: NDArray[np.uint8]
    labels: NDArray[np.uint8]
    first_examples: NDArray[np.int64]
    augmentations: Augmentations
    keys: NDArray[np.int64]
    first_identifiers: NDArray[np.int32]
    canonical_hashes: list[str]
    source_files: list[str]
    source_rows: NDArray[np.int64]
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    imported: Rows | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def examples_per_augmentation(self) -> NDArray[np.int64]:
        """Number of examples of each augmentation of a group, int64 [G]."""
        return np.diff(self.first_examples)

    @property
    def num_puzzles(self) -> int:
        """Number of augmentations of all groups, originals included."""
        return int(self.augmentations.counts.sum())

    @property
    def rows_per_group(self) -> NDArray[np.int64]:
        """Number of rows of each group, over all augmentations, int64 [G]."""
        return self.examples_per_augmentation * self.augmentations.counts

    @property
    def num_examples(self) -> int:
        """Number of rows of the split, over all augmentations."""
        return int(self.rows_per_group.sum())

    def numbered(self, start: int, stop: int) -> Picks:
        """Return all rows of the groups `start` to `stop`: each original, then its augmentations, with all examples."""
        groups, positions = self.augmentations.numbered(np.arange(start, stop, dtype=np.int64))
        examples = self.examples_per_augmentation[groups]
        return Picks(np.repeat(groups, examples), np.repeat(positions, examples), _positions(examples))

    def slice(self, start: int, stop: int) -> Groups:
        """Return the groups `start` to `stop`, as views, without facts."""
        first, last = int(self.first_examples[start]), int(self.first_examples[stop])
        imported = self.imported
        if imported is not None:
            imported = imported.slice(*(int(self.rows_per_group[:at].sum()) for at in (start, stop)))
        return Groups(
            inputs=self.inputs[first:last],
            labels=self.labels[first:last],
            first_examples=self.first_examples[start : stop + 1] - first,
            augmentations=self.augmentations.slice(start, stop),
            keys=self.keys[start:stop],
            first_identifiers=self.first_identifiers[start:stop],
            canonical_hashes=self.canonical_hashes[start:stop],
            source_files=self.source_files[start:stop],
            source_rows=self.source_rows[start:stop],
            imported=imported,
        )


def _positions(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0 to `count - 1` for each of `counts`, concatenated, int64 [sum of counts]."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def group_ranges(rows_per_group: NDArray[np.int64], examples: int) -> Iterator[tuple[int, int]]:
    """Cut groups into ranges of about `examples` rows, without splitting a group."""
    first, rows = 0, 0
    for group, count in enumerate(rows_per_group.tolist()):
        rows += count
        if rows >= examples or group == len(rows_per_group) - 1:
            yield first, group + 1
            first, rows = group + 1, 0


@dataclass(frozen=True)
class SourceFile:
    """A file that puzzles were read from."""

    file: str
    sha256: str
    rows: int
    licence: str = ""


@dataclass(frozen=True)
class Selection:
    """The content of a dataset to build: the groups of each split, and the rejected rows."""

    splits: Mapping[Split, Groups]
    sources: list[SourceFile] = field(default_factory=list[SourceFile])
    rejects: list[Reject] = field(default_factory=list[Reject])
    num_identifiers: int = 1
    """Number of rows of the puzzle-embedding table, including the blank one (0)."""
    identifiers_digest: str = ""
    """sha256 of the meanings of all identifiers; empty if there is only the blank one."""
    identifier_names: tuple[str, ...] = ()
    """Name of each identifier, if the source has names for its rows."""
    attachments: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Files that are stored unchanged beside the catalog."""
    warnings: list[str] = field(default_factory=list[str])
    """Warnings to the user about this choice of puzzles."""


@dataclass(frozen=True)
class Rows:
    """Stored examples, N rows of S cells.

    Attributes:
        inputs: Tokens, uint8 [N, S].
        labels: Tokens, uint8 [N, S].
        puzzle_identifiers: Row of the puzzle-embedding table, int32 [N].
        groups: Group within the split, int32 [N].
        augmentations: Position of the augmentation within its group, int32 [N].
        examples: Position of the example within its augmentation, int32 [N].
    """

    inputs: NDArray[np.uint8]
    labels: NDArray[np.uint8]
    puzzle_identifiers: NDArray[np.int32]
    groups: NDArray[np.int32]
    augmentations: NDArray[np.int32]
    examples: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.inputs)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns by name, in the order of hashing and storage."""
        return {column.name: getattr(self, column.name) for column in fields(self)}

    def slice(self, start: int, stop: int) -> Rows:
        """Return rows `start` to `stop`, as views."""
        return Rows(**{name: column[start:stop] for name, column in self.columns().items()})

    @staticmethod
    def empty(count: int, sequence_length: int) -> Rows:
        """Return uninitialized rows, to be filled."""
        cells = (count, sequence_length)
        numbers = [np.empty(count, np.int32) for _ in range(4)]
        return Rows(np.empty(cells, np.uint8), np.empty(cells, np.uint8), *numbers)

    @staticmethod
    def concatenate(parts: Sequence[Rows]) -> Rows:
        """Return all rows of `parts`, in order."""
        names = [column.name for column in fields(Rows)]
        return Rows(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def group_counts(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return first row, number of augmentations and examples of each augmentation of the groups in `rows`, int64 [G].

    Raises:
        ValueError: A group is not complete, or its augmentations differ in their number of examples.
    """
    first_rows = np.flatnonzero(np.concatenate([[True], np.diff(rows.groups) != 0]))
    sizes = np.diff(np.append(first_rows, len(rows)))
    num_augmentations = np.maximum(rows.augmentations[first_rows + sizes - 1].astype(np.int64) + 1, 1)
    num_examples = sizes // num_augmentations
    offsets, per_row = _positions(sizes), np.repeat(np.maximum(num_examples, 1), sizes)
    if not (
        np.array_equal(sizes, num_augmentations * num_examples)
        and np.array_equal(rows.augmentations, offsets // per_row)
        and np.array_equal(rows.examples, offsets % per_row)
    ):
        raise ValueError("the augmentations of a group differ in their number of examples")
    return first_rows, num_augmentations, num_examples
