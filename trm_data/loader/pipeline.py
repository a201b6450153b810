"""The loader: `BatchSource` (element i is this host's slice of step `start_step + i`) behind a Grain pipeline.

Also the evaluation pass, which visits every row once, and one finite epoch as an input for other frameworks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from types import TracebackType
from typing import Protocol, Self, SupportsIndex

import grain
import numpy as np
from numpy.typing import NDArray

from trm_data.errors import SpecError
from trm_data.loader.dataset import Dataset, whole_number
from trm_data.loader.mixture import Mixture, MixturePlan
from trm_data.loader.plan import BatchPlan
from trm_data.loader.rows import Batch

MOST_STEPS = 2**40
"""Maximum number of steps of a loader; the stream of examples has no end."""


class BatchSource:
    """Random access to the batches of a dataset or a mixture of datasets, for one host.

    Raises:
        SpecError: A batch size, host or step is invalid.
    """

    def __init__(
        self,
        dataset: Dataset | Mixture,
        *,
        global_batch_size: int,
        seed: int,
        process_index: int = 0,
        process_count: int = 1,
        start_step: int = 0,
    ) -> None:
        check_types(dataset, global_batch_size=global_batch_size, seed=seed, start_step=start_step)
        if not 0 <= process_index < process_count:
            raise SpecError(
                f"process_index {process_index}: expected 0 to process_count - 1 = {process_count - 1}"
            )
        if global_batch_size < 1 or global_batch_size % process_count:
            of = f"a multiple of the {process_count} processes, " if process_count > 1 else ""
            raise SpecError(f"global_batch_size {global_batch_size}: expected {of}at least 1")
        if not 0 <= start_step < MOST_STEPS:
            raise SpecError(f"start_step {start_step}: expected 0 to {MOST_STEPS - 1}")
        if not 0 <= seed < 2**63:
            raise SpecError(f"seed {seed}: expected 0 to 2^63 - 1")
        self.dataset = dataset
        self.seed, self.global_batch_size, self.start_step = seed, global_batch_size, start_step
        if isinstance(dataset, Mixture):
            self._batch = MixturePlan(dataset, seed, global_batch_size).batch
        else:
            plan = BatchPlan(dataset.groups, seed, global_batch_size)
            self._batch = lambda step, start, stop: dataset.gather(plan.picks(step, start, stop))
        local = global_batch_size // process_count
        self._slots = (process_index * local, (process_index + 1) * local)

    def __len__(self) -> int:
        return MOST_STEPS - self.start_step

    def __repr__(self) -> str:
        return (
            f"BatchSource({self.dataset!r}, slots={self._slots[0]}..{self._slots[1]} of "
            f"{self.global_batch_size}, seed={self.seed}, start_step={self.start_step})"
        )

    def __getitem__(self, index: int) -> Batch:
        return self._batch(self.start_step + int(index), *self._slots)


def check_types(dataset: object, **whole_numbers: object) -> None:
    """Check argument types at run time, for users without a type checker."""
    if isinstance(dataset, str | PathLike):
        raise SpecError(
            f"dataset {dataset!r}: is a name, not an opened dataset. Open it: "
            f"trm_data.open_dataset({dataset!r})"
        )
    if not isinstance(dataset, Dataset | Mixture):
        raise SpecError(f"dataset {dataset!r}: expected an opened dataset: trm_data.open_dataset(NAME)")
    for name, value in whole_numbers.items():
        if not isinstance(value, SupportsIndex) or isinstance(value, bool):
            raise SpecError(f"{name} {value!r}: expected a whole number")


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
