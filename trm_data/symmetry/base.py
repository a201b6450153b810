"""The interface of augmenters, and the symmetry of the k-th augmentation of a puzzle.

Stored datasets use augmenters at build time, virtual ones in the loader.

Neighbours: `augment.sudoku`, `augment.grid` and `augment.arc` have one each; `kinds` say which a dataset uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trm_data.kernel import kernel
from trm_data.seeds.draws import Purpose
from trm_data.seeds.kernels import U1, feistel, feistel_keys


@dataclass(frozen=True)
class Made:
    """How rows were made. N rows.

    Attributes:
        elements: Index of the symmetry element of each row, int64 [N].
        offsets: Row and column that the grid was moved by, uint8 [N, 2]; None where nothing is translated.
    """

    elements: NDArray[np.int64]
    offsets: NDArray[np.uint8] | None = None


class Augmenter(Protocol):
    """Rows of one split, made from its base puzzles in any order. Pure, and safe to call from several threads."""

    def fill(
        self,
        groups: NDArray[np.int64],
        ks: NDArray[np.int64],
        examples: NDArray[np.int64],
        inputs: NDArray[np.uint8],
        labels: NDArray[np.uint8],
    ) -> Made:
        """Write the rows `examples` of the `ks`-th augmentations of `groups` into `inputs` and `labels`.

        Args:
            groups: Group of each row, int64 [N].
            ks: Which augmentation, as k of the keyed permutation, int64 [N].
            examples: Which example of the puzzle, int64 [N].
            inputs: Is overwritten with tokens, contiguous uint8 [N, S].
            labels: Likewise.
        """
        ...


class Unchanged:
    """The augmenter of base puzzles that have no augmentations: copies rows.

    Args:
        inputs: Tokens of all base examples, uint8 [E, S].
        labels: Likewise.
        first_examples: Where each group's examples begin, int64 [G + 1].
    """

    def __init__(
        self, inputs: NDArray[np.uint8], labels: NDArray[np.uint8], first_examples: NDArray[np.int64]
    ) -> None:
        self._inputs, self._labels, self._first = inputs, labels, first_examples

    def fill(
        self,
        groups: NDArray[np.int64],
        ks: NDArray[np.int64],
        examples: NDArray[np.int64],
        inputs: NDArray[np.uint8],
        labels: NDArray[np.uint8],
    ) -> Made:
        """Write one row for each slot: its example as it is; every k is 0."""
        rows = self._first[groups] + examples
        np.take(self._inputs, rows, axis=0, out=inputs)
        np.take(self._labels, rows, axis=0, out=labels)
        return Made(np.zeros(len(rows), np.int64))


@kernel
def _fill_elements(
    keys: NDArray[np.uint64],
    groups: NDArray[np.int64],
    ks: NDArray[np.int64],
    others: np.uint64,
    elements: NDArray[np.int64],
) -> None:
    for n in range(groups.shape[0]):
        elements[n] = 0
        if ks[n] > 0:
            elements[n] = np.int64(U1 + feistel(keys[groups[n]], np.uint64(ks[n] - 1), others))


def keyed_elements(
    seed: int, names: NDArray[np.int64], groups: NDArray[np.int64], ks: NDArray[np.int64], order: int
) -> NDArray[np.int64]:
    """Index of the `ks[n]`-th augmentation of the puzzle named `names[groups[n]]`, int64 [N].

    Args:
        seed: Of the dataset.
        names: Numbers of the puzzles in keyed draws, int64 [G].
        groups: Which puzzle, int64 [N].
        ks: Which augmentation, from 0 to order - 1, int64 [N].
        order: Elements that have an index, the identity (0) included.
    """
    elements = np.empty(len(groups), np.int64)
    keys = feistel_keys(seed, Purpose.AUGMENT, names)
    _fill_elements(
        keys,
        np.ascontiguousarray(groups, np.int64),
        np.ascontiguousarray(ks, np.int64),
        np.uint64(order - 1),
        elements,
    )
    return elements
