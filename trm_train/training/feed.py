"""Prefetches batches to the devices."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import jax
import numpy as np
from jax.sharding import Mesh

from trm_data.loader.dataset import Dataset
from trm_data.loader.pipeline import BatchLoader
from trm_data.loader.rows import Batch, Picks
from trm_train.errors import ConfigError
from trm_train.mesh.sharding import batch_sharding, batches_sharding, put_batch, replicated
from trm_train.step.several import Given

AHEAD = 2
"""Dispatches whose input is on the devices, or on its way there, while one is computed."""


@dataclass(frozen=True)
class RowNumbers:
    """Gives the numbers of rows in their place, for devices that hold the rows.

    Attributes:
        dataset: Whose rows they are.
    """

    dataset: Dataset

    def gather(self, picks: Picks, rows: np.ndarray | None) -> Batch:
        """`rows` int32 [b]."""
        found = self.dataset.groups.rows(picks) if rows is None else rows
        return {"rows": found.astype(np.int32)}


def numbered(dataset: Dataset) -> Dataset:
    """The same split, whose batches are `rows`: which they are."""
    if len(dataset) > np.iinfo(np.int32).max:
        raise ConfigError(
            f"execution.device_rows: {dataset.name} has {len(dataset):,} rows, more than 2^31 - 1"
        )
    return replace(dataset, reader=RowNumbers(dataset))


def dispatches(start: int, total: int, most: int, every: Sequence[int], ends: Sequence[int]) -> Iterator[int]:
    """How many steps each dispatch takes: as many as may be, but none beyond a step after which something is done.

    Args:
        start: Steps taken before.
        total: Steps in all.
        most: Steps of a dispatch at most.
        every: Interval in steps; 0 never.
        ends: Last steps of the stages of training.
    """
    step = start
    while step < total:
        next_due = [(step // interval + 1) * interval for interval in every if interval]
        count = min(most, min([total, *next_due, *(end for end in ends if end > step)]) - step)
        yield count
        step += count


class Prefetcher:
    """What each dispatch takes beside the state, put on the devices by a thread of its own.

    Args:
        loader: This process's batches, from the next step on.
        mesh: Devices.
        counts: Steps of each dispatch.
        most: Steps of a dispatch at most.
        held: Rows that the devices hold.
    """

    def __init__(
        self,
        loader: BatchLoader,
        mesh: Mesh,
        counts: Iterator[int],
        most: int,
        held: dict[str, jax.Array] | None,
    ) -> None:
        self._loader, self._mesh, self._most, self._held = loader, mesh, most, held
        self._counts = counts
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="feed")
        self._coming: deque[tuple[int, Future[Given]]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    def next(self) -> tuple[int, Given]:
        """How many steps the next dispatch takes, and what it is given."""
        if not self._coming:
            self.prepare()
        count, coming = self._coming.popleft()
        return count, coming.result()

    def prepare(self) -> None:
        """Begin with what the dispatches to come take: best while the devices are busy."""
        while len(self._coming) < AHEAD and (count := next(self._counts, 0)):
            self._coming.append((count, self._thread.submit(self._make, count)))

    def _make(self, count: int) -> Given:
        if self._most == 1:
            return Given(put_batch(next(self._loader), batch_sharding(self._mesh)), None, self._held)
        batches = [next(self._loader) for _ in range(count)]
        together = {name: np.zeros((self._most, *one.shape), one.dtype) for name, one in batches[0].items()}
        for index, batch in enumerate(batches):
            for name, values in batch.items():
                together[name][index] = values
        everywhere = replicated(self._mesh)
        (number,) = put_batch({"steps": np.asarray(count, np.int32)}, everywhere).values()
        return Given(put_batch(together, batches_sharding(self._mesh)), number, self._held)


def hold_rows(dataset: Dataset, mesh: Mesh) -> dict[str, jax.Array]:
    """All rows of a split, on every device."""
    return put_batch(dataset.read(np.arange(len(dataset))), replicated(mesh))
