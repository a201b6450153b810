"""Run each kernel of an ARC build once, to compile it or to load it before workers are forked."""

from __future__ import annotations

import numpy as np

from trm_data.kernel import without_unused
from trm_data.kinds.arc.encode import Pair, encode_pairs
from trm_data.kinds.arc.symmetry import ArcAugmenter, distinct_augmentations


def write(generated: bool) -> None:
    """Find the augmentations of a task of one cell, and augment it."""
    del generated
    grid = np.zeros((1, 1), np.uint8)
    pairs = [Pair(grid, grid)]
    distinct_augmentations([pairs], [0], 0, 1)
    inputs, labels, _ = encode_pairs(pairs)
    one = np.zeros(1, np.int64)
    ArcAugmenter(inputs, labels, np.ones((1, 4), np.uint8), np.array([0, 1]), one, 0, translate=True).fill(
        one, one, one, np.empty_like(inputs), np.empty_like(labels)
    )


PARTS = (write,)
"""Parts that processes compile at the same time."""


def warm() -> None:
    """Run the kernels of every build."""
    with without_unused():
        for part in PARTS:
            part(generated=False)
