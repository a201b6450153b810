"""The loader: a Grain pipeline over a `BatchSource`, and an evaluation pass that visits every row once."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

import grain
import numpy as np
from numpy.typing import NDArray

from trm_data.loader.dataset import Dataset
from trm_data.loader.mixture import Mixture
from trm_data.loader.rows import Batch
from trm_data.loader.source import BatchSource

READ_THREADS = 1
PREFETCHED_BATCHES = 16


class ReadsRows(Protocol):
    """A split, or another source of rows."""

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def read(self, rows: NDArray[np.int64]) -> Batch:
        """Return arrays that begin with the requested rows."""
        ...


class BatchLoader:
    """An endless iterator over the batches of one host. `step` is its whole state.

    Close it, or use it in a `with` block: open prefetch threads would keep the process from exiting.

    Attributes:
        step: Step of the next batch.
        dataset: The dataset or mixture it reads.
    """

    def __init__(self, source: BatchSource, threads: int = READ_THREADS) -> None:
        self.dataset = source.dataset
        self._source = source
        self.step = source.start_step
        options = grain.ReadOptions(
            num_threads=threads, prefetch_buffer_size=PREFETCHED_BATCHES if threads else 0
        )
        self.pipeline = grain.MapDataset.source(source).to_iter_dataset(options)
        self._batches = iter(self.pipeline)

    def __repr__(self) -> str:
        return f"BatchLoader({self._source!r}, step={self.step})"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        batch = next(self._batches)
        self.step += 1
        return batch

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the prefetching threads."""
        self._batches.close()


def make_loader(
    dataset: Dataset | Mixture,
    *,
    global_batch_size: int,
    seed: int,
    process_index: int = 0,
    process_count: int = 1,
    start_step: int = 0,
    threads: int = READ_THREADS,
) -> BatchLoader:
    """Return a loader of this host's slice of every global batch, from `start_step` on.

    The slices of all hosts, concatenated in order, are the batch that a single host would see.

    Args:
        dataset: An opened split, or a mixture of several (`open_mixture`).
        global_batch_size: Slots of a batch, over all hosts; a multiple of `process_count`.
        seed: Determines order and augmentations.
        process_index: Index of this host.
        process_count: Number of hosts.
        start_step: Step of the first batch; starting at t resumes the stream exactly.
        threads: Prefetch threads; 0 gathers each batch on demand.

    Returns:
        An iterator over dicts of `inputs` uint8 [b, S], `labels` uint8 [b, S] and `puzzle_identifiers` int32
        [b], with b = global_batch_size / process_count; for a mixture also `tasks` int32 [b].

    Raises:
        SpecError: A batch size, host or step is invalid.
    """
    source = BatchSource(
        dataset,
        global_batch_size=global_batch_size,
        seed=seed,
        process_index=process_index,
        process_count=process_count,
        start_step=start_step,
    )
    return BatchLoader(source, threads)


def evaluation_batches(
    dataset: ReadsRows,
    batch_size: int,
    rows: NDArray[np.int64] | None = None,
    *,
    process_index: int = 0,
    process_count: int = 1,
) -> Iterator[tuple[Batch, NDArray[np.int64]]]:
    """Yield every row once, in order; the last batch is padded with rows whose labels are all PAD.

    Args:
        dataset: An opened split, or another source of rows.
        batch_size: Rows of every batch, over all hosts; a multiple of `process_count`.
        rows: Row numbers; None is all of them.
        process_index: Index of this host.
        process_count: Number of hosts; each gets its slice of every batch, even if it is only padding.

    Yields:
        This host's slice of a batch, and the rows that its first slots hold.
    """
    chosen = np.arange(len(dataset), dtype=np.int64) if rows is None else rows
    local = batch_size // process_count
    for start in range(0, len(chosen), batch_size):
        first = start + process_index * local
        some = chosen[first : first + local]
        batch = dataset.read(some)
        if len(some) < local:
            batch = {name: _padded(values, local) for name, values in batch.items()}
        yield batch, some


def _padded(values: np.ndarray, batch_size: int) -> np.ndarray:
    """Append rows of zeros (PAD, the blank identifier) to `values`."""
    padding = np.zeros((batch_size - len(values), *values.shape[1:]), values.dtype)
    return np.concatenate([values, padding])
