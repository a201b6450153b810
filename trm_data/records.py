"""The columns that flow from stage to stage of a build: chosen puzzles, rows, rejects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.specs import Split

PART_EXAMPLES = 16_384
"""Rows that a stage holds in memory at a time, about."""


@dataclass(frozen=True)
class Reject:
    """A row of a source that was left out, and why."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True)
class Groups:
    """The base puzzles of one split, in group order. G groups, S cells.

    Attributes:
        inputs: Cell values of the puzzles, uint8 [G, S].
        solutions: Cell values of their solutions, uint8 [G, S].
        ratings: Difficulty by `rating_sources`, float32 [G].
        rating_sources: `file` where the source states the rating, `solver` where it was computed.
        source_files: Name of each puzzle's source.
        source_rows: Line in the file (from 1), or index in the generator's stream (from 0), int64 [G].
        clues: Given cells, int32 [G].
        canonical_hashes: Hash of each puzzle's canonical form under the symmetries of its kind.
        augmentations: For each group the augmentations it has, as k of the keyed permutation, int32; the first
            is 0, the puzzle itself.
    """

    inputs: NDArray[np.uint8]
    solutions: NDArray[np.uint8]
    ratings: NDArray[np.float32]
    rating_sources: list[str]
    source_files: list[str]
    source_rows: NDArray[np.int64]
    clues: NDArray[np.int32]
    canonical_hashes: list[str]
    augmentations: list[NDArray[np.int32]]

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def num_examples(self) -> int:
        """Rows of the split, all augmentations counted."""
        return sum(len(ks) for ks in self.augmentations)


def group_ranges(
    groups: Groups, start: int, stop: int, examples: int = PART_EXAMPLES
) -> Iterator[tuple[int, int]]:
    """Cut the groups `start` to `stop` into ranges of about `examples` rows."""
    first, rows = start, 0
    for group in range(start, stop):
        rows += len(groups.augmentations[group])
        if rows >= examples or group == stop - 1:
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
    """What a build puts into a dataset: the groups of each split, and what was left out."""

    splits: Mapping[Split, Groups]
    sources: list[SourceFile] = field(default_factory=list[SourceFile])
    rejects: list[Reject] = field(default_factory=list[Reject])


@dataclass(frozen=True)
class Rows:
    """Examples as they are stored, N rows of S cells.

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
        """The columns by name, in the order in which they are hashed and stored."""
        return {column.name: getattr(self, column.name) for column in fields(self)}

    def slice(self, start: int, stop: int) -> Rows:
        """Rows `start` to `stop`, as views."""
        return Rows(**{name: column[start:stop] for name, column in self.columns().items()})

    @staticmethod
    def concatenate(parts: Sequence[Rows]) -> Rows:
        """All rows of `parts`, in order."""
        names = [column.name for column in fields(Rows)]
        return Rows(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})
