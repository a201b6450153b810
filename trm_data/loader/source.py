"""A Grain source whose element is a whole batch: element i is this host's slice of step `start_step + i`.

Per-element Python would cost more than the rows themselves, so one element is one gather in a kernel.
"""

from __future__ import annotations

from os import PathLike
from typing import SupportsIndex

from trm_data.errors import SpecError
from trm_data.loader.dataset import Dataset
from trm_data.loader.mixture import Mixture, MixturePlan
from trm_data.loader.plan import BatchPlan
from trm_data.loader.rows import Batch

MOST_STEPS = 2**40
"""Steps that a loader can count; the stream of examples has no end."""


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
                f"process_index {process_index}: from 0 to process_count - 1 = {process_count - 1}"
            )
        if global_batch_size < 1 or global_batch_size % process_count:
            of = f"a multiple of the {process_count} processes, " if process_count > 1 else ""
            raise SpecError(f"global_batch_size {global_batch_size}: expected {of}at least 1")
        if not 0 <= start_step < MOST_STEPS:
            raise SpecError(f"start_step {start_step}: from 0 to {MOST_STEPS - 1}")
        if not 0 <= seed < 2**63:
            raise SpecError(f"seed {seed}: from 0 to 2^63 - 1")
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
