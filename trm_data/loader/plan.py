"""Rows of the global batch of a step: a pure function of (dataset, seed, batch size, step).

Epoch: the groups are shuffled, one augmentation of each is drawn, its examples follow in random order. The
epochs form one endless stream of examples; step t takes its positions t * B to (t + 1) * B. So no example is lost
between epochs, any host can compute its slice, and the whole state of a loader is the integer t.
Source: the TRM paper and its published code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.kernel import kernel
from trm_data.loader.rows import GroupTable, Picks
from trm_data.seeds.draws import Purpose
from trm_data.seeds.kernels import STREAM_WORDS, next_bounded, open_stream, shuffle, shuffled

_EPOCHS_KEPT = 2


@dataclass
class BatchPlan:
    """The stream of examples of one dataset and seed.

    Args:
        groups: Row ranges of the groups.
        seed: Any number from 0 to 2^63 - 1.
        global_batch_size: Slots of a batch, over all hosts.
    """

    groups: GroupTable
    seed: int
    global_batch_size: int
    _orders: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(default_factory=dict, repr=False)

    @cached_property
    def epoch_examples(self) -> int:
        """Examples of one epoch."""
        return self.groups.epoch_examples

    def picks(self, step: int, start: int, stop: int) -> Picks:
        """Return the picks for the slots `start` to `stop` of the global batch at `step`."""
        return self.stream(step * self.global_batch_size + start, stop - start)

    def rows(self, step: int, start: int, stop: int) -> NDArray[np.int64]:
        """Return the row numbers for the slots `start` to `stop` of the global batch at `step`."""
        return self.groups.rows(self.picks(step, start, stop))

    def stream(self, first: int, count: int) -> Picks:
        """Return the examples `first` to `first + count - 1` of the endless stream."""
        out = np.empty((3, count), np.int64)
        filled = 0
        while filled < count:
            epoch, offset = divmod(first + filled, self.epoch_examples)
            part = min(count - filled, self.epoch_examples - offset)
            order, ends = self._order(epoch)
            _fill(
                order,
                ends,
                self.groups.num_augmentations,
                self.groups.num_examples,
                np.uint64(self.seed),
                epoch,
                offset,
                out[:, filled : filled + part],
            )
            filled += part
        return Picks(*out)

    def _order(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the group order of an epoch, and where the examples of each group end; the last epochs are cached."""
        found = self._orders.get(epoch)
        if found is None:
            order = shuffled(self.seed, Purpose.EPOCH_ORDER, epoch, 0, len(self.groups.first_rows))
            found = order, np.cumsum(self.groups.num_examples[order])
            # Threads may compute the same epoch twice; both get the same order.
            orders = {**self._orders, epoch: found}
            self._orders = {kept: orders[kept] for kept in sorted(orders)[-_EPOCHS_KEPT:]}
        return found


@kernel
def _fill(
    order: NDArray[np.int64],
    ends: NDArray[np.int64],
    num_augmentations: NDArray[np.int64],
    num_examples: NDArray[np.int64],
    seed: Any,
    epoch: Any,
    offset: Any,
    out: NDArray[np.int64],
) -> None:
    """Write group, augmentation and example of the examples from `offset` of an epoch on; `out` is [3, N]."""
    stream = np.empty(STREAM_WORDS, np.uint64)
    place = np.searchsorted(ends, offset, side="right")
    filled = 0
    while filled < out.shape[1]:
        group: Any = order[place]
        examples: Any = num_examples[group]
        open_stream(stream, seed, Purpose.EPOCH_AUGMENTATION.value, epoch, group)
        augmentation = np.int64(next_bounded(stream, np.uint64(num_augmentations[group])))
        skipped = offset + filled - (ends[place] - examples)
        if examples == 1:
            out[0, filled], out[1, filled], out[2, filled] = group, augmentation, 0
            filled += 1
        else:
            inner = np.arange(examples)
            open_stream(stream, seed, Purpose.EXAMPLE_ORDER.value, epoch, group)
            shuffle(stream, inner)
            for position in range(skipped, min(examples, skipped + out.shape[1] - filled)):
                out[0, filled], out[1, filled], out[2, filled] = group, augmentation, inner[position]
                filled += 1
        place += 1
