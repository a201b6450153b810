"""Symmetry classes of mazes: hashes that are equal if and only if mazes are images of one another.

Input: mazes as tokens uint8 [N, S]. Output: hashes for the catalog.
Neighbours: `augment.dihedral` has the symmetries. A square maze has eight, another one the four that keep its
shape: a dataset holds mazes of one shape.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from trm_data.augment.dihedral import source_cells
from trm_data.augment.grid import grid_dihedrals
from trm_data.encode.maze import check_tokens
from trm_data.encode.vocab import MAZE_FREE, MAZE_WALL


def maze_hashes(inputs: NDArray[np.uint8], rows: int, columns: int) -> list[str]:
    """Return a name for each maze's class: blake2b of 16 bytes over R, C and the smallest image, hexadecimal.

    Raises:
        ValueError: Sizes, shapes or tokens that are not allowed.
    """
    start = hashlib.blake2b(bytes((rows, columns)), digest_size=16)
    names: list[str] = []
    for images in _images(inputs, rows, columns):
        state = start.copy()
        state.update(min(images))
        names.append(state.hexdigest())
    return names


def layout_hashes(inputs: NDArray[np.uint8], rows: int, columns: int) -> list[str]:
    """Return `maze_hashes` of the walls alone: equal for mazes that differ in S and G only.

    Raises:
        ValueError: As `maze_hashes`.
    """
    inputs = check_tokens("inputs", inputs, rows, columns)
    walls = np.where(inputs == MAZE_WALL, np.uint8(MAZE_WALL), np.uint8(MAZE_FREE))
    return maze_hashes(walls, rows, columns)


def _images(inputs: NDArray[np.uint8], rows: int, columns: int) -> list[list[bytes]]:
    """The bytes of each maze's images, in the order of `grid_dihedrals`."""
    inputs = check_tokens("inputs", inputs, rows, columns)
    ids = grid_dihedrals(rows, columns)
    packed = [inputs.take(source_cells(d, rows, columns), axis=1).tobytes() for d in ids]
    cells = rows * columns
    return [[image[i : i + cells] for image in packed] for i in range(0, len(inputs) * cells, cells)]
