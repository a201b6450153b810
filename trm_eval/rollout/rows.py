"""Which rows of a split an evaluation answers, and as whose."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import jax
import numpy as np
from numpy.typing import NDArray

from trm_data.loader.component import Component
from trm_data.loader.dataset import Dataset
from trm_data.loader.rows import Batch

Identifiers = Literal["own", "blank", "random"]


def choose_rows(count: int, limit: int, seed: int | None) -> NDArray[np.int64]:
    """Rows of a split of `count`, in order: all, the first `limit` of them, or as many drawn by a seed.

    A larger draw of the same seed holds the smaller one.
    """
    if not limit or limit >= count:
        return np.arange(count, dtype=np.int64)
    if seed is None:
        return np.arange(limit, dtype=np.int64)
    return np.sort(np.random.default_rng(seed).permutation(count)[:limit]).astype(np.int64)


@dataclass(frozen=True)
class RowReader:
    """A split whose batches say which row is which (`row`, int32 [n]), under its own puzzle identifiers or others.

    Batches are in the encoding of the network: where it learned a mixture, padded and moved to the dataset's place.

    Attributes:
        dataset: The split.
        identifiers: `own`; `blank`, identifier 0 everywhere; or `random`, one of the others for each row.
        num_identifiers: Identifiers that the rows may have, the blank one included.
        component: Where the dataset is in the mixture that the network learned; None where it learned one dataset.
        sequence_length: Cells of the mixture's rows.
    """

    dataset: Dataset
    identifiers: Identifiers
    num_identifiers: int
    component: Component | None = None
    sequence_length: int = 0

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, rows: NDArray[np.int64]) -> Batch:
        """Rows of these numbers as a batch."""
        batch = {**self.dataset.read(rows), "row": rows.astype(np.int32)}
        if self.identifiers == "blank":
            batch["puzzle_identifiers"] = np.zeros(len(rows), np.int32)
        elif self.identifiers == "random" and self.num_identifiers > 1:
            batch["puzzle_identifiers"] = self._random[rows]
        return batch if self.component is None else self.component.encode(batch, self.sequence_length)

    def decode(self, tokens: NDArray[np.integer]) -> NDArray[np.uint8]:
        """What the network says in its cells [..., S] as tokens of the dataset's own cells."""
        return tokens.astype(np.uint8) if self.component is None else self.component.decode(tokens)

    @cached_property
    def _random(self) -> NDArray[np.int32]:
        """An identifier for every row, always the same."""
        return np.random.default_rng(0).integers(1, self.num_identifiers, len(self.dataset), np.int32)

    def shapes(self, size: int, placed: jax.sharding.Sharding) -> dict[str, jax.ShapeDtypeStruct]:
        """Shapes, types and layout of a batch of this many rows, with its `weight`."""
        some = {**self.read(np.zeros(1, np.int64)), "weight": np.ones(1, bool)}
        return {
            name: jax.ShapeDtypeStruct((size, *values.shape[1:]), values.dtype, sharding=placed)
            for name, values in some.items()
        }
