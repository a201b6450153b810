"""One finite epoch: every row of a split once, in order, as batches; an input for other frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trm_data.errors import SpecError
from trm_data.loader.dataset import Dataset, whole_number
from trm_data.loader.pipeline import check_types
from trm_data.loader.rows import Batch


@dataclass(frozen=True)
class Epoch:
    """Batches of all rows of a split, in order: a sequence, which can be iterated repeatedly and indexed by batch.

    Attributes:
        dataset: The split.
        batch_size: Rows of a batch; the last batch may have fewer.
        drop_last: Leave out a last batch with fewer rows.
    """

    dataset: Dataset
    batch_size: int
    drop_last: bool = False

    def __len__(self) -> int:
        rows = len(self.dataset)
        return rows // self.batch_size if self.drop_last else -(-rows // self.batch_size)

    def __getitem__(self, index: int) -> Batch:
        number = range(len(self))[whole_number("batch", index)]  # IndexError, as for any sequence
        begin = number * self.batch_size
        return self.dataset.read(np.arange(begin, min(begin + self.batch_size, len(self.dataset))))

    def __iter__(self) -> Iterator[Batch]:
        return map(self.__getitem__, range(len(self)))


def epoch(dataset: Dataset, batch_size: int, *, drop_last: bool = False) -> Epoch:
    """Return every row of a split once, in order, as batches; finite, and can be iterated repeatedly.

        for batch in trm_data.epoch(dataset, 256):
            batch["inputs"]            # uint8 [256, S]; the last batch has the remaining rows

    For training use `make_loader` instead: shuffled, endless, and the same on any number of hosts.

    Args:
        dataset: An opened split.
        batch_size: Rows of a batch.
        drop_last: Leave out a last batch with fewer rows.

    Raises:
        SpecError: The batch size is below 1 or not an integer, or `dataset` is a name.
    """
    check_types(dataset, batch_size=batch_size)
    if batch_size < 1:
        raise SpecError(f"batch_size {batch_size}: expected at least 1")
    return Epoch(dataset, batch_size, drop_last)
