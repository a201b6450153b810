"""Canonical hashes of ARC examples and tasks: equal for images of one another under the group of `augment.arc`.

Input: pairs of grids. Output: hashes for the catalog, and which test pairs leak into training.
Neighbours: `canonical.arc_kernels` has the algorithm; `sources.arc_duplicates` lists what they find in the
published sets.

The form of an example is the smallest of its eight images in byte order, each with the colours 1 to 9 renamed by
first appearance (input first, then output, row by row), black kept: sizes of input and output, then the cells.
Forms are equal if and only if the examples are images of one another. An unknown output has the size 0 x 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from trm_data.encode.arc import ARC_CELLS, Pair, encode_pairs

_HEAD = 4
_HASH_BYTES = 16


def pair_hashes(pairs: Iterable[Pair]) -> list[str]:
    """A name for each example, the same for its images under colours and dihedral: blake2b of 16 bytes over its
    canonical form, in hexadecimal.

    Raises:
        ValueError: A grid that is no ARC grid.
    """
    from trm_data.canonical import arc_kernels  # imports numba

    inputs, outputs, sizes = encode_pairs(pairs)
    forms = np.empty((len(sizes), _HEAD + 2 * ARC_CELLS), np.uint8)
    arc_kernels.canonicalize_many(inputs, outputs, sizes, forms)
    numbers = sizes.astype(np.int64)
    lengths = _HEAD + numbers[:, 0] * numbers[:, 1] + numbers[:, 2] * numbers[:, 3]
    return [
        hashlib.blake2b(form[:length].tobytes(), digest_size=_HASH_BYTES).hexdigest()
        for form, length in zip(forms, lengths.tolist(), strict=True)
    ]
