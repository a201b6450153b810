"""Symmetry classes of mazes: hashes that are equal if and only if mazes are images of one another.

Input: mazes as tokens uint8 [N, S]. Output: hashes for the catalog, numbers of automorphisms, and which of the
images of a maze are different.
Neighbours: `augment.dihedral` has the symmetries. A square maze has eight, another one the four that keep its
shape: a dataset holds mazes of one shape.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from trm_data.augment.dihedral import DIHEDRAL_COUNT, Dihedral, source_cells
from trm_data.encode.maze import check_tokens
from trm_data.encode.vocab import MAZE_FREE, MAZE_WALL


def dihedral_ids(rows: int, columns: int) -> tuple[int, ...]:
    """Returns the published ids of the symmetries that keep a shape: all 8 of a square, otherwise 0, 2, 4, 5."""
    return tuple(d for d in range(DIHEDRAL_COUNT) if rows == columns or not Dihedral(d).turns)


def maze_hashes(inputs: NDArray[np.uint8], rows: int, columns: int) -> list[str]:
    """Returns a name for each maze's class: blake2b of 16 bytes over R, C and the smallest image, hexadecimal.

    Raises:
        ValueError: sizes, shapes or tokens that are not allowed.
    """
    start = hashlib.blake2b(bytes((rows, columns)), digest_size=16)
    names: list[str] = []
    for images in _images(inputs, rows, columns):
        state = start.copy()
        state.update(min(images))
        names.append(state.hexdigest())
    return names


def layout_hashes(inputs: NDArray[np.uint8], rows: int, columns: int) -> list[str]:
    """Returns `maze_hashes` of the walls alone: equal for mazes that differ in S and G only.

    Raises:
        ValueError: as `maze_hashes`.
    """
    inputs = check_tokens("inputs", inputs, rows, columns)
    walls = np.where(inputs == MAZE_WALL, np.uint8(MAZE_WALL), np.uint8(MAZE_FREE))
    return maze_hashes(walls, rows, columns)


def maze_automorphisms(inputs: NDArray[np.uint8], rows: int, columns: int) -> NDArray[np.int64]:
    """Returns the number of symmetries that map each maze to itself, int64 [N], at least 1.

    Raises:
        ValueError: as `maze_hashes`.
    """
    counts = [images.count(images[0]) for images in _images(inputs, rows, columns)]
    return np.array(counts, np.int64)


def distinct_dihedrals(inputs: NDArray[np.uint8], rows: int, columns: int) -> list[NDArray[np.int32]]:
    """Returns for each maze the ids, from 0, ascending, whose images are pairwise different and are all there are.

    Raises:
        ValueError: as `maze_hashes`.
    """
    ids = dihedral_ids(rows, columns)
    distinct: list[NDArray[np.int32]] = []
    for images in _images(inputs, rows, columns):
        first = {image: d for d, image in zip(reversed(ids), reversed(images), strict=True)}
        distinct.append(np.array(sorted(first.values()), np.int32))
    return distinct


def _images(inputs: NDArray[np.uint8], rows: int, columns: int) -> list[list[bytes]]:
    """The bytes of each maze's images, in the order of `dihedral_ids`."""
    inputs = check_tokens("inputs", inputs, rows, columns)
    ids = dihedral_ids(rows, columns)
    packed = [inputs.take(source_cells(d, rows, columns), axis=1).tobytes() for d in ids]
    cells = rows * columns
    return [[image[i : i + cells] for image in packed] for i in range(0, len(inputs) * cells, cells)]
