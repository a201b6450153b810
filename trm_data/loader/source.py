"""A Grain source whose element is a whole batch: element i is this host's slice of step `start_step + i`.

Per-element Python would cost more than the rows themselves, so one element is one gather in a kernel.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from trm_data.errors import SpecError
from trm_data.loader.dataset import Dataset
from trm_data.loader.plan import BatchPlan

MOST_STEPS = 2**40
"""Steps that a loader can count; the stream of examples has no end."""

Batch = dict[str, NDArray[np.uint8] | NDArray[np.int32]]


class BatchSource:
    """Random access to the batches of a dataset, for one host.

    Raises:
        SpecError: A batch size, host or step that cannot be.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        global_batch_size: int,
        seed: int,
        process_index: int = 0,
        process_count: int = 1,
        start_step: int = 0,
    ) -> None:
        if not 0 <= process_index < process_count:
            raise SpecError(
                f"process_index {process_index}: from 0 to process_count - 1 = {process_count - 1}"
            )
        if global_batch_size < 1 or global_batch_size % process_count:
            raise SpecError(
                f"global_batch_size {global_batch_size}: a multiple of the {process_count} processes, at least 1"
            )
        if not 0 <= start_step < MOST_STEPS:
            raise SpecError(f"start_step {start_step}: from 0 to {MOST_STEPS - 1}")
        if not 0 <= seed < 2**63:
            raise SpecError(f"seed {seed}: from 0 to 2^63 - 1")
        self.dataset = dataset
        self.plan = BatchPlan(dataset.groups, seed, global_batch_size)
        self.start_step = start_step
        local = global_batch_size // process_count
        self._slots = (process_index * local, (process_index + 1) * local)

    def __len__(self) -> int:
        return MOST_STEPS - self.start_step

    def __repr__(self) -> str:
        return (
            f"BatchSource({self.dataset!r}, slots={self._slots[0]}..{self._slots[1]} of "
            f"{self.plan.global_batch_size}, seed={self.plan.seed}, start_step={self.start_step})"
        )

    def __getitem__(self, index: int) -> Batch:
        rows = self.plan.rows(self.start_step + int(index), *self._slots)
        return gather(self.dataset, rows)


def gather(dataset: Dataset, rows: NDArray[np.int64]) -> Batch:
    """The rows of a dataset as a batch: `inputs`, `labels` uint8 [b, S], `puzzle_identifiers` int32 [b]."""
    shape = (len(rows), dataset.inputs.shape[1])
    inputs, labels = np.empty(shape, np.uint8), np.empty(shape, np.uint8)
    identifiers = np.empty(len(rows), np.int32)
    _gather(dataset.inputs, dataset.labels, dataset.puzzle_identifiers, rows, inputs, labels, identifiers)
    return {"inputs": inputs, "labels": labels, "puzzle_identifiers": identifiers}


@njit(cache=True, nogil=True)
def _gather(
    all_inputs: NDArray[np.uint8],
    all_labels: NDArray[np.uint8],
    all_identifiers: NDArray[np.int32],
    rows: NDArray[np.int64],
    inputs: NDArray[np.uint8],
    labels: NDArray[np.uint8],
    identifiers: NDArray[np.int32],
) -> None:
    for slot in range(rows.shape[0]):
        row = rows[slot]
        for cell in range(inputs.shape[1]):
            inputs[slot, cell] = all_inputs[row, cell]
        for cell in range(inputs.shape[1]):
            labels[slot, cell] = all_labels[row, cell]
        identifiers[slot] = all_identifiers[row]
