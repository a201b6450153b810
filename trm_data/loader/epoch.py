"""One epoch in order that ends: every row of a split once, as batches; what other frameworks take as their own data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trm_data.errors import SpecError
from trm_data.loader.dataset import Dataset, whole_number
from trm_data.loader.rows import Batch
from trm_data.loader.source import check_types


@dataclass(frozen=True)
class Epoch:
    """Batches of all rows of a split, in order: a sequence, so it may be walked again and asked for its i-th batch.

    Attributes:
        dataset: The split.
        batch_size: Rows of a batch; the last one may have fewer.
        drop_last: Leave out a last batch with fewer rows.
    """

    dataset: Dataset
    batch_size: int
    drop_last: bool = False

    def __len__(self) -> int:
        rows = len(self.dataset)
        return rows // self.batch_size if self.drop_last else -(-rows // self.batch_size)

    def __getitem__(self, index: int) -> Batch:
        number = range(len(self))[whole_number("batch", index)]  # IndexError as of any sequence
        begin = number * self.batch_size
        return self.dataset.read(np.arange(begin, min(begin + self.batch_size, len(self.dataset))))

    def __iter__(self) -> Iterator[Batch]:
        return map(self.__getitem__, range(len(self)))


def epoch(dataset: Dataset, batch_size: int, *, drop_last: bool = False) -> Epoch:
    """Every row of a split once, in order, as batches; it ends, and may be walked again.

        for batch in trm_data.epoch(dataset, 256):
            batch["inputs"]            # uint8 [256, S]; the last batch has what is left

    Training reads from `make_loader` instead: shuffled, without end, the same on any number of hosts.

    Args:
        dataset: An opened split.
        batch_size: Rows of a batch.
        drop_last: Leave out a last batch with fewer rows.

    Raises:
        SpecError: A batch size below 1 or not whole, or a name in place of a dataset.
    """
    check_types(dataset, batch_size=batch_size)
    if batch_size < 1:
        raise SpecError(f"batch_size {batch_size}: expected at least 1")
    return Epoch(dataset, batch_size, drop_last)
