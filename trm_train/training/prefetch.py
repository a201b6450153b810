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
"""Number of dispatches whose input is prefetched while one is computed."""


@dataclass(frozen=True)
class RowNumbers:
    """Reader that returns row numbers instead of rows, for devices that already hold the rows.

    Attributes:
        dataset: Dataset that the rows belong to.
    """

    dataset: Dataset

    def gather(self, picks: Picks, rows: np.ndarray | None) -> Batch:
        """Return the row numbers of a batch as `rows`, int32 [b]."""
        found = self.dataset.groups.rows(picks) if rows is None else rows
        return {"rows": found.astype(np.int32)}


def numbered(dataset: Dataset) -> Dataset:
    """Return the same split with a reader whose batches contain only row numbers (`rows`)."""
    if len(dataset) > np.iinfo(np.int32).max:
        raise ConfigError(
            f"execution.device_rows: {dataset.name} has {len(dataset):,} rows, more than 2^31 - 1"
        )
    return replace(dataset, reader=RowNumbers(dataset))


def dispatches(start: int, total: int, most: int, every: Sequence[int], ends: Sequence[int]) -> Iterator[int]:
    """Yield the number of steps of each dispatch: as many as possible without passing a step where something is due.

    Args:
        start: Steps already taken.
        total: Total number of steps.
        most: Maximum number of steps in one dispatch.
        every: Intervals in steps (0: never).
        ends: Last step of each training stage.
    """
    step = start
    while step < total:
        next_due = [(step // interval + 1) * interval for interval in every if interval]
        count = min(most, min([total, *next_due, *(end for end in ends if end > step)]) - step)
        yield count
        step += count


class Prefetcher:
    """Prefetcher: a thread that puts the input of the next dispatches on the devices.

    Args:
        loader: This process's batches, from the next step on.
        mesh: Mesh of the devices.
        counts: Number of steps in each dispatch.
        most: Maximum number of steps in one dispatch.
        held: Rows that the devices already hold, or None.
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
        """Return the number of steps in the next dispatch, and its input."""
        if not self._coming:
            self.prepare()
        count, coming = self._coming.popleft()
        return count, coming.result()

    def prepare(self) -> None:
        """Start to prefetch the input of the next dispatches. Best called while the devices are busy."""
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
    """Put all rows of a split on every device."""
    return put_batch(dataset.read(np.arange(len(dataset))), replicated(mesh))
