"""The Sudoku kind: limits of its specification, shapes, and the rows of a group.

Neighbours: `choose` picks the puzzles of each split, `check` verifies finished rows, `draw` shows one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from trm_data.augment.sudoku import augment_rows, index_count
from trm_data.encode.vocab import sudoku_vocabulary_size
from trm_data.errors import SpecError
from trm_data.kinds.base import CheckedSplit, Geometry
from trm_data.kinds.sudoku.check import check_rows
from trm_data.kinds.sudoku.choose import choose_puzzles
from trm_data.kinds.sudoku.draw import draw_grid
from trm_data.progress import Progress
from trm_data.records import Groups, Rows, Selection
from trm_data.sources.base import LocalSource
from trm_data.specs import DatasetSpec, Split

BOXES = ((2, 2), (2, 3), (3, 2), (3, 3), (3, 4), (4, 3), (4, 4))


class SudokuKind:
    """The Sudoku kind."""

    name = "sudoku"

    def check_spec(self, spec: DatasetSpec) -> None:
        """Refuse boxes, sizes and ratings that cannot be."""
        box = spec.options.box
        if box not in BOXES:
            allowed = ", ".join(f"{rows}x{columns}" for rows, columns in BOXES)
            raise SpecError(f"--box {box[0]}x{box[1]}: allowed are {allowed}")
        if spec.size < 1:
            raise SpecError(f"--size {spec.size}: at least 1")
        for option, value in (("aug", spec.aug), ("val-size", spec.val_size), ("test-size", spec.test_size)):
            if value < 0:
                raise SpecError(f"--{option} {value}: at least 0")
        most = index_count(*box) - 1
        if spec.aug > most:
            raise SpecError(f"--aug {spec.aug}: a {box[0]}x{box[1]} Sudoku has {most:,} besides the original")
        low, high = spec.options.min_rating, spec.options.max_rating
        for option, value in (("min-rating", low), ("max-rating", high)):
            if value is not None and not 0 <= value < math.inf:
                raise SpecError(f"--{option} {value}: a number of at least 0")
        if low is not None and high is not None and low > high:
            raise SpecError(f"--min-rating {low:g} is above --max-rating {high:g}")
        if not 0 <= spec.seed < 2**63:
            raise SpecError(f"--seed {spec.seed}: from 0 to 2^63 - 1")

    def geometry(self, spec: DatasetSpec) -> Geometry:
        """A square grid of side n, n + 2 tokens, one identifier for all puzzles."""
        side = spec.options.side
        return Geometry(
            grid_rows=side,
            grid_columns=side,
            vocabulary_size=sudoku_vocabulary_size(side),
            identifiers=("<blank>",),
        )

    def select(
        self,
        spec: DatasetSpec,
        source: LocalSource,
        test_source: LocalSource | None,
        *,
        workers: int,
        progress: Progress,
    ) -> Selection:
        """Choose the puzzles of every split."""
        return choose_puzzles(spec, source, test_source, workers=workers, progress=progress)

    def make_rows(
        self, spec: DatasetSpec, groups: Groups, start: int, stop: int
    ) -> tuple[Rows, NDArray[np.int64]]:
        """Rows of the groups `start` to `stop`: each original, then its augmentations.

        The k-th augmentation is keyed by (seed, group, k) alone, so it stays what it is in a larger dataset.
        """
        box = spec.options.box
        ks = groups.augmentations[start:stop]
        counts = [len(k) for k in ks]
        group_of_row = np.repeat(np.arange(start, stop, dtype=np.int32), counts)
        shape = (len(group_of_row), groups.inputs.shape[1])
        inputs, labels = np.empty(shape, np.uint8), np.empty(shape, np.uint8)
        elements = augment_rows(
            groups.inputs[start:stop],
            groups.solutions[start:stop],
            np.arange(start, stop, dtype=np.int64),
            group_of_row - np.int32(start),
            np.concatenate(ks).astype(np.int64),
            spec.seed,
            *box,
            inputs,
            labels,
        )
        rows = Rows(
            inputs=inputs,
            labels=labels,
            puzzle_identifiers=np.zeros(len(inputs), np.int32),
            groups=group_of_row,
            augmentations=np.concatenate([np.arange(count, dtype=np.int32) for count in counts]),
            examples=np.zeros(len(inputs), np.int32),
        )
        return rows, elements

    def check_rows(
        self,
        spec: DatasetSpec,
        split: Split,
        rows: Rows,
        ks: NDArray[np.int32],
        elements: NDArray[np.int64],
    ) -> CheckedSplit:
        """Solve every original again, derive every augmentation again, compare."""
        return check_rows(self, spec, split, rows, ks, elements)

    def render(self, tokens: NDArray[np.uint8], spec: DatasetSpec) -> str:
        """The grid with its boxes."""
        return draw_grid(tokens, spec.options.box_rows, spec.options.box_columns)
