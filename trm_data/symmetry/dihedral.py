"""The eight symmetries of a rectangular grid as values, and as cell numbers for kernels.

Input: grids of any shape. Output: their images; a grid of R x C has images of C x R for the ids 1, 3, 6, 7.
Neighbours: `symmetry.grid` and `kinds.arc.symmetry` build their groups on it. Ids and inverses are those of the
published code: 0 identity; 1, 2, 3 rotations by 90, 180, 270 degrees counter-clockwise; 4 left-right flip; 5 up-down
flip; 6 transpose; 7 left-right flip of the rotation by 90.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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

    def compose(self, first: Dihedral) -> Dihedral:
        """Return the symmetry that applies `first`, then this one."""
        return Dihedral(_products()[self.id][first.id])


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


@functools.cache
def _products() -> tuple[tuple[int, ...], ...]:
    """Return the table `[second][first]` of the ids of `first`, then `second`."""
    probe = np.arange(6).reshape(2, 3)
    images = {Dihedral(d).apply(probe).tobytes() + bytes(Dihedral(d).apply(probe).shape): d for d in range(8)}

    def product(second: int, first: int) -> int:
        image = Dihedral(second).apply(Dihedral(first).apply(probe))
        return images[image.tobytes() + bytes(image.shape)]

    return tuple(tuple(product(second, first) for first in range(8)) for second in range(8))
