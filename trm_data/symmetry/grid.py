"""Augmentation of whole grids by the symmetries of their rectangle: mazes, and users' own tables.

The k-th augmentation of a puzzle is a keyed permutation of its symmetries: 8 for a square, 4 (those that do not turn)
for other grids. `Dihedral(element).inverse()` undoes a row's symmetry.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false
# (numba infers the types of kernels; their annotations are for readers)
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.kernel import kernel
from trm_data.symmetry.base import Indices, Made, Tokens, keyed_elements
from trm_data.symmetry.dihedral import DIHEDRAL_COUNT, Dihedral, source_cells


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
