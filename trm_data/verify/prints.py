"""Numbers that tell rows apart, so that equal rows of two splits are found without holding the rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.kernel import kernel
from trm_data.records import Rows

_SEEN_BITS = 24
_UNSEEN_BITS = np.uint64(64 - _SEEN_BITS)


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


def shared_rows(
    prints: NDArray[np.uint64], others: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of one split whose numbers stand in another, and where they do: the first of equal ones, each int64.

    Nearly all rows are told apart by the upper bits of their numbers; only what is left is sorted.
    """
    rows = np.flatnonzero(_seen(others)[prints >> _UNSEEN_BITS])
    places = np.flatnonzero(_seen(prints[rows])[others >> _UNSEEN_BITS])
    _, first, other = np.intersect1d(prints[rows], others[places], return_indices=True)
    return rows[first], places[other]


def _seen(prints: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which upper bits some numbers have."""
    seen = np.zeros(1 << _SEEN_BITS, np.bool_)
    seen[prints >> _UNSEEN_BITS] = True
    return seen


@kernel
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
