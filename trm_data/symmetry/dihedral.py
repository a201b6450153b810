"""The eight symmetries of a rectangular grid: as values, as cell numbers for kernels, and as augmentation of grids.

Input: grids of any shape. Output: their images; a grid of R x C has images of C x R for the ids 1, 3, 6, 7.
Neighbours: `kinds.arc.symmetry` builds its group on it. Ids and inverses are those of the
published code: 0 identity; 1, 2, 3 rotations by 90, 180, 270 degrees counter-clockwise; 4 left-right flip; 5 up-down
flip; 6 transpose; 7 left-right flip of the rotation by 90.

Mazes and users' own tables are augmented by the symmetries of their rectangle. The k-th augmentation of a puzzle is a
keyed permutation of its symmetries: 8 for a square, 4 (those that do not turn) for other grids.
`Dihedral(element).inverse()` undoes a row's symmetry.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trm_data.kernel import kernel
from trm_data.symmetry.base import Indices, Made, Tokens, keyed_elements

DIHEDRAL_COUNT = 8
_INVERSES = (0, 3, 2, 1, 4, 5, 6, 7)
_TURNING = frozenset((1, 3, 6, 7))


@dataclass(frozen=True)
class Dihedral:
    """One of the eight symmetries, by its published id.

    Raises:
        ValueError: The id is not 0 to 7.
    """

    id: int

    def __post_init__(self) -> None:
        if not 0 <= self.id < DIHEDRAL_COUNT:
            raise ValueError(f"dihedral: got {self.id}; expected 0 to {DIHEDRAL_COUNT - 1}")

    @property
    def turns(self) -> bool:
        """Whether rows become columns."""
        return self.id in _TURNING

    def apply(self, grid: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the image of a grid [R, C]: [R, C], or [C, R] if the symmetry turns it."""
        cells = source_cells(self.id, *grid.shape)
        return grid.reshape(-1)[cells].reshape(grid.shape[::-1] if self.turns else grid.shape)

    def inverse(self) -> Dihedral:
        """Return the symmetry that undoes this one."""
        return Dihedral(_INVERSES[self.id])


@functools.cache
def source_cells(dihedral: int, rows: int, columns: int) -> NDArray[np.int64]:
    """Return for each cell of the image, row by row, its source cell in the R x C grid; int64 [R * C]."""
    i, j = np.indices((columns, rows) if dihedral in _TURNING else (rows, columns))
    last_row, last_column = rows - 1, columns - 1
    row, column = (
        (i, j),
        (j, last_column - i),
        (last_row - i, last_column - j),
        (last_row - j, i),
        (i, last_column - j),
        (last_row - i, j),
        (j, i),
        (last_row - j, last_column - i),
    )[dihedral]
    cells = (row * columns + column).reshape(-1)
    cells.flags.writeable = False
    return cells


def grid_dihedrals(rows: int, columns: int) -> tuple[int, ...]:
    """Return the ids of the symmetries that keep a grid's shape: 8 for a square, else 4."""
    return tuple(d for d in range(DIHEDRAL_COUNT) if rows == columns or not Dihedral(d).turns)


def grid_elements(
    seed: int,
    keys: NDArray[np.int64],
    groups: NDArray[np.int64],
    ks: NDArray[np.int64],
    rows: int,
    columns: int,
) -> NDArray[np.int64]:
    """Return the dihedral id of the `ks[n]`-th augmentation of the puzzle `keys[groups[n]]`, int64 [N]."""
    ids = np.array(grid_dihedrals(rows, columns), np.int64)
    return ids[keyed_elements(seed, keys, groups, ks, len(ids))]


class GridAugmenter:
    """Rows of single grids under the symmetries of the rectangle.

    Args:
        inputs: Tokens, uint8 [G, S].
        labels: Tokens, uint8 [G, S].
        keys: Numbers of the puzzles in keyed draws, int64 [G].
        seed: Seed of the dataset.
        rows: Rows of the grid.
        columns: Columns of the grid.
    """

    def __init__(
        self,
        inputs: NDArray[np.uint8],
        labels: NDArray[np.uint8],
        keys: NDArray[np.int64],
        seed: int,
        rows: int,
        columns: int,
    ) -> None:
        self._inputs, self._labels, self._keys, self._seed = inputs, labels, keys, seed
        self._shape = rows, columns
        self._cells = np.zeros((DIHEDRAL_COUNT, rows * columns), np.int64)
        for dihedral in grid_dihedrals(rows, columns):
            self._cells[dihedral] = source_cells(dihedral, rows, columns)

    def fill(self, groups: Indices, ks: Indices, examples: Indices, inputs: Tokens, labels: Tokens) -> Made:
        """Write one row for each slot: its group under the symmetry of its k."""
        elements = grid_elements(self._seed, self._keys, groups, ks, *self._shape)
        _fill(self._inputs, self._labels, self._cells, groups, elements, inputs, labels)
        return Made(elements)


@kernel
def _fill(
    base_inputs: NDArray[np.uint8],
    base_labels: NDArray[np.uint8],
    cells: NDArray[np.int64],
    groups: NDArray[np.int64],
    elements: NDArray[np.int64],
    inputs: NDArray[np.uint8],
    labels: NDArray[np.uint8],
) -> None:
    for n in range(groups.shape[0]):
        group, element = groups[n], elements[n]
        for cell in range(inputs.shape[1]):
            source = cells[element, cell]
            inputs[n, cell] = base_inputs[group, source]
            labels[n, cell] = base_labels[group, source]


def distinct_dihedral_ks(
    inputs: NDArray[np.uint8],
    keys: NDArray[np.int64],
    seed: int,
    rows: int,
    columns: int,
    aug: int,
) -> list[NDArray[np.int32]]:
    """Return for each grid the first k whose images (of the input) differ from all earlier ones, at most `aug` + 1."""
    order = len(grid_dihedrals(rows, columns))
    augmenter = GridAugmenter(inputs, inputs, keys, seed, rows, columns)
    count = len(inputs)
    groups = np.repeat(np.arange(count, dtype=np.int64), order)
    ks = np.tile(np.arange(order, dtype=np.int64), count)
    images = np.empty((2, count * order, rows * columns), np.uint8)
    augmenter.fill(groups, ks, np.zeros_like(ks), images[0], images[1])
    lists: list[NDArray[np.int32]] = []
    for group in range(count):
        seen: set[bytes] = set()
        distinct: list[int] = []
        for k in range(order):
            row = group * order + k
            image = images[0, row].tobytes()
            if image not in seen and len(distinct) <= aug:
                seen.add(image)
                distinct.append(k)
        lists.append(np.array(distinct, np.int32))
    return lists
