"""Augmentation of mazes that relabels each image by the published rule.

A symmetry moves the maze; the path is then searched again by the published rule, which always looks in the order
down, left, right, up. Moving the label instead gives the rule's label of the moved maze for only 13% of the images
(docs/decisions/0045-labels-of-moved-mazes.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.encode.vocab import MAZE_PATH
from trm_data.kinds.maze.solve import label_mazes
from trm_data.symmetry.base import Augmenter, Indices, Made, Tokens
from trm_data.symmetry.dihedral import DIHEDRAL_COUNT

CHUNK_IMAGES = 8192
"""Maximum number of images in memory at a time while all are labelled."""


class Relabelled:
    """The rows of another augmenter, each labelled by the published rule.

    Args:
        moved: Augmenter that makes the rows.
        rows: Rows of the grid.
        columns: Columns of the grid.
    """

    def __init__(self, moved: Augmenter, rows: int, columns: int) -> None:
        self._moved, self._shape = moved, (rows, columns)

    def fill(self, groups: Indices, ks: Indices, examples: Indices, inputs: Tokens, labels: Tokens) -> Made:
        """Write one row for each slot."""
        made = self._moved.fill(groups, ks, examples, inputs, labels)
        labels[:] = label_mazes(inputs, *self._shape).labels
        return made


class RelabelledOnce:
    """The same rows for a loader, which reads each row many times: all images are labelled once, at construction.

    A path is stored as a bit for each cell, so 1,000 mazes of 30x30 take 0.9 MB.

    Args:
        moved: Augmenter that makes the rows.
        groups: Group of every image, int64 [N].
        ks: k of every image, int64 [N].
        num_groups: Number of groups.
        rows: Rows of the grid.
        columns: Columns of the grid.
    """

    def __init__(
        self,
        moved: Augmenter,
        groups: NDArray[np.int64],
        ks: NDArray[np.int64],
        num_groups: int,
        rows: int,
        columns: int,
    ) -> None:
        self._moved, self._cells = moved, rows * columns
        self._paths = np.zeros((num_groups, DIHEDRAL_COUNT, -(-self._cells // 8)), np.uint8)
        relabelled = Relabelled(moved, rows, columns)
        for start in range(0, len(groups), CHUNK_IMAGES):
            part = slice(start, start + CHUNK_IMAGES)
            images = np.empty((2, len(groups[part]), self._cells), np.uint8)
            made = relabelled.fill(groups[part], ks[part], np.zeros_like(ks[part]), images[0], images[1])
            self._paths[groups[part], made.elements] = np.packbits(images[1] == MAZE_PATH, axis=1)

    def fill(self, groups: Indices, ks: Indices, examples: Indices, inputs: Tokens, labels: Tokens) -> Made:
        """Write one row for each slot."""
        made = self._moved.fill(groups, ks, examples, inputs, labels)
        path = np.unpackbits(self._paths[groups, made.elements], axis=1, count=self._cells)
        np.copyto(labels, inputs)
        np.copyto(labels, np.uint8(MAZE_PATH), where=path.view(np.bool_))
        return made
