"""Cell by cell: how many labelled cells of a prediction are wrong."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trm_data.encode.vocab import PAD


def wrong_cells(predictions: NDArray[np.uint8], labels: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Labelled cells that differ, int32 [N], of tokens [N, S]."""
    return ((predictions != labels) & (labels != PAD)).sum(axis=1, dtype=np.int32)


def labelled_cells(labels: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Cells that count, int32 [N], of tokens [N, S]."""
    return (labels != PAD).sum(axis=1, dtype=np.int32)
