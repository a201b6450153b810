"""What a kind of puzzle must know, so that building, verifying and showing need to know nothing of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import SpecError
from trm_data.progress import Progress
from trm_data.records import Groups, Rows, Selection
from trm_data.sources.base import LocalSource
from trm_data.specs import DatasetSpec, Split


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Shapes and sizes that a dataset of some specification has.

    Attributes:
        grid_rows: Rows of the grid as it is drawn.
        grid_columns: Columns of the grid as it is drawn.
        vocabulary_size: Tokens, PAD included.
        identifiers: Name of each row of the puzzle-embedding table; 0 is the blank one.
    """

    grid_rows: int
    grid_columns: int
    vocabulary_size: int
    identifiers: tuple[str, ...]

    @property
    def sequence_length(self) -> int:
        """Cells S of a row."""
        return self.grid_rows * self.grid_columns


class Kind(Protocol):
    """One kind of puzzle."""

    name: str

    def check_spec(self, spec: DatasetSpec) -> None:
        """Refuse a specification that cannot be built, before anything is read.

        Raises:
            SpecError: Which option, what it got, what is allowed.
        """
        ...

    def geometry(self, spec: DatasetSpec) -> Geometry:
        """Shapes and sizes."""
        ...

    def select(
        self,
        spec: DatasetSpec,
        source: LocalSource,
        test_source: LocalSource | None,
        *,
        workers: int,
        progress: Progress,
    ) -> Selection:
        """Choose the puzzles of every split: valid, and disjoint under the symmetries of the kind.

        Raises:
            BadRowError: A row is no valid puzzle, and the specification says to stop.
            SpecError: The source has fewer puzzles than asked for.
        """
        ...

    def make_rows(
        self, spec: DatasetSpec, groups: Groups, start: int, stop: int
    ) -> tuple[Rows, NDArray[np.int64]]:
        """All rows of the groups `start` to `stop`, and the symmetry element that made each.

        Pure: the same specification and groups give the same rows on any machine.
        """
        ...

    def check_rows(
        self,
        spec: DatasetSpec,
        split: Split,
        rows: Rows,
        ks: NDArray[np.int32],
        elements: NDArray[np.int64],
    ) -> CheckedSplit:
        """Check the decoded rows of a split without trusting the build.

        Args:
            spec: The dataset's specification.
            split: Which split.
            rows: All of its rows, decoded from the shards.
            ks: k of each row's augmentation, from the catalog, int32 [N].
            elements: Symmetry element of each row, from the catalog, int64 [N].
        """
        ...

    def render(self, tokens: NDArray[np.uint8], spec: DatasetSpec) -> str:
        """A row as text for the terminal."""
        ...


@dataclass(frozen=True)
class CheckedSplit:
    """What `Kind.check_rows` found.

    Attributes:
        problems: One line for each thing that is wrong.
        canonical_hashes: Of each group's original, for comparison between splits and with the catalog.
    """

    problems: list[str]
    canonical_hashes: list[str]


def load_kind(name: str) -> Kind:
    """The kind of that name.

    Raises:
        SpecError: There is none.
    """
    if name == "sudoku":
        from trm_data.kinds.sudoku.kind import SudokuKind

        return SudokuKind()
    raise SpecError(f"unknown kind {name!r}: there is 'sudoku'")
