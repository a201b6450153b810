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
    """A split, or whatever gives rows like one."""

    def __len__(self) -> int:
        """Rows there are."""
        ...

    def read(self, rows: NDArray[np.int64]) -> Batch:
        """Arrays that begin with the rows asked for."""
        ...


class BatchLoader:
    """An endless iterator over the batches of one host. Its whole state is `step`.

    Close it (or use it as a context) when done: prefetching threads would keep a process from ending.

    Attributes:
        step: Step of the batch that `next` returns next.
        dataset: What it reads.
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
    """A loader of this host's slice of every global batch, from `start_step` on.

    The slices of all hosts, put together in order, are the batch that one host would see.

    Args:
        dataset: An opened split, or a mixture of several (`open_mixture`).
        global_batch_size: Slots of a batch, over all hosts; a multiple of `process_count`.
        seed: Decides order and augmentations.
        process_index: This host.
        process_count: Hosts.
        start_step: Step of the first batch; resuming at t continues exactly.
        threads: Threads that gather ahead; 0 gathers when asked.

    Returns:
        An iterator over dicts of `inputs` uint8 [b, S], `labels` uint8 [b, S] and `puzzle_identifiers` int32
        [b], with b = global_batch_size / process_count; of a mixture also `tasks` int32 [b].

    Raises:
        SpecError: A batch size, host or step that cannot be.
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
    """Every row once, in order; the last batch is padded with rows whose labels are all PAD.

    Args:
        dataset: An opened split, or what reads like one.
        batch_size: Rows of every batch, over all hosts; a multiple of `process_count`.
        rows: Which rows; None is all of them.
        process_index: This host.
        process_count: Hosts; each gets its slice of every batch, also where only padding is left for it.

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
    """`values` with rows of zeros (PAD, the blank identifier) after them."""
    padding = np.zeros((batch_size - len(values), *values.shape[1:]), values.dtype)
    return np.concatenate([values, padding])
