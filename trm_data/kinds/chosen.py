"""The puzzles that were chosen for a split, in the order in which buckets take turns: in memory, or out of it.

Up to `PART_BYTES` of them are held as they came. Beyond that, what is held is written to a file without a name
(`kinds.columns`) again and again, and read in turn when all are chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trm_data.kinds.candidates import Candidates
from trm_data.kinds.columns import ColumnStore, Place

PART_BYTES = 1 << 25
"""Candidates that are held in memory, and made groups of, at a time: 107,000 Sudokus of 9x9."""


class Chosen:
    """Chosen puzzles of one split.

    Args:
        num_buckets: From which they are taken in turn.
        folder: For those that are out of memory; None for the system's folder of temporary files.
    """

    def __init__(self, num_buckets: int, folder: Path | None) -> None:
        self._buckets = [_Bucket() for _ in range(num_buckets)]
        self._folder = folder
        self._store: ColumnStore | None = None
        self._held_bytes = self._part = 0

    def __len__(self) -> int:
        return sum(map(len, self._buckets))

    @property
    def on_disk(self) -> bool:
        """Whether some are out of memory."""
        return self._store is not None

    def add(self, bucket: int, candidates: Candidates) -> None:
        """The next ones of a bucket."""
        self._buckets[bucket].held.append(candidates)
        self._held_bytes += candidates.num_bytes
        if self._held_bytes > PART_BYTES:
            self._put_out()

    def parts(self) -> Iterator[Candidates]:
        """The first of every bucket, then the second of every bucket, and so on; afterwards nothing is left."""
        if self._store is None:
            yield interleaved([bucket.release() for bucket in self._buckets if bucket.held])
            return
        self._put_out()
        step = max(1, self._part // len(self._buckets))
        for place in range(0, max(map(len, self._buckets)), step):
            some = [
                bucket.read(self._store, place, place + step)
                for bucket in self._buckets
                if place < len(bucket)
            ]
            yield interleaved(some)
        self._store.close()

    def _put_out(self) -> None:
        self._store = self._store or ColumnStore(self._folder)
        count = sum(bucket.put_out(self._store) for bucket in self._buckets)
        self._part, self._held_bytes = max(self._part, count), 0


@dataclass
class _Bucket:
    """Chosen puzzles of one bucket.

    Attributes:
        held: Those in memory, the last ones.
        blocks: Those that are not: where they are, and how many were before each and with it.
        last: The block that was read last, by its number.
    """

    held: list[Candidates] = field(default_factory=list[Candidates])
    blocks: list[tuple[int, int, Place]] = field(default_factory=list[tuple[int, int, Place]])
    last: tuple[int, Candidates] | None = None

    def __len__(self) -> int:
        return (self.blocks[-1][1] if self.blocks else 0) + sum(map(len, self.held))

    def release(self) -> Candidates:
        """Those in memory, which are then held no more."""
        held, self.held = self.held, []
        return Candidates.concatenate(held)

    def put_out(self, store: ColumnStore) -> int:
        """Write those in memory; returns how many."""
        if not self.held:
            return 0
        stop = len(self)
        candidates = self.release()
        self.blocks.append((stop - len(candidates), stop, store.append(candidates.columns())))
        return len(candidates)

    def read(self, store: ColumnStore, start: int, stop: int) -> Candidates:
        """The puzzles `start` to `stop`, of blocks that were not read past."""
        found: list[Candidates] = []
        for number, (first, end, place) in enumerate(self.blocks):
            if first < stop and start < end:
                if self.last is None or self.last[0] != number:
                    self.last = None
                    self.last = number, Candidates.of_columns(store.read(place))
                positions = np.arange(max(start, first) - first, min(stop, end) - first)
                found.append(self.last[1].take(positions))
        return Candidates.concatenate(found)


def interleaved(buckets: list[Candidates]) -> Candidates:
    """The first of every bucket, then the second of every bucket, and so on."""
    if len(buckets) == 1:
        return buckets[0]
    places = np.concatenate([np.arange(len(bucket)) for bucket in buckets])
    numbers = np.concatenate([np.full(len(bucket), i) for i, bucket in enumerate(buckets)])
    return Candidates.concatenate(buckets).take(np.lexsort((numbers, places)))
