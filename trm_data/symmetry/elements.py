"""The symmetry of the k-th augmentation of a puzzle: a keyed permutation of all elements except the identity.

Input: keys of puzzles and k. Output: indices of elements. `augment.sudoku` and `augment.arc` number their groups.
"""

# pyright: basic, reportArgumentType=false, reportCallIssue=false, reportReturnType=false, reportIndexIssue=false
# (numba decides the types of kernels; their annotations are for readers)
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.kernel import kernel
from trm_data.seeds.draws import Purpose
from trm_data.seeds.kernels import U1, feistel, feistel_keys


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
