"""Numbers that tell rows apart, so that equal rows of two splits are found without holding the rows."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trm_data.records import Rows


def row_prints(rows: Rows) -> NDArray[np.uint64]:
    """A number for each row, uint64 [N], from its input and label alone; other rows have it by accident only.

    Modulo 2^64 the sum of every cell times a number of 64 bits that is drawn for its place: two rows that differ have
    the same one with a probability of 2^-56 at most.
    """
    width = rows.inputs.shape[1]
    draws = np.random.default_rng(0).integers(0, 2**64, (2, width), np.uint64, endpoint=False)
    prints = np.empty(len(rows), np.uint64)
    _add_up(
        np.ascontiguousarray(rows.inputs), np.ascontiguousarray(rows.labels), draws | np.uint64(1), prints
    )
    return prints


@njit(cache=True, nogil=True)
def _add_up(
    inputs: NDArray[np.uint8],
    labels: NDArray[np.uint8],
    draws: NDArray[np.uint64],
    prints: NDArray[np.uint64],
) -> None:
    for row in range(inputs.shape[0]):
        total = np.uint64(0)
        for cell in range(inputs.shape[1]):
            total += np.uint64(inputs[row, cell]) * draws[0, cell]
        for cell in range(inputs.shape[1]):
            total += np.uint64(labels[row, cell]) * draws[1, cell]
        prints[row] = total
