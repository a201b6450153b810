"""Batches of an evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from trm_train.mesh import make_mesh
from trm_train.training.validate import evaluation_batch_size


class Rows:
    """A split of `count` rows of `length` cells."""

    def __init__(self, count: int, length: int) -> None:
        self._count, self._length = count, length

    def __len__(self) -> int:
        return self._count

    def read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        return {"inputs": np.zeros((len(rows), self._length), np.uint8)}


@pytest.mark.parametrize(
    ("count", "length", "size"),
    [(5_000, 81, 14), (5_000, 900, 2), (5_000, 2_000, 2), (7, 81, 7), (900, 2, 256)],
)
def test_a_batch_on_a_cpu_fits_into_its_caches(count: int, length: int, size: int) -> None:
    assert evaluation_batch_size(Rows(count, length), make_mesh()) == size
