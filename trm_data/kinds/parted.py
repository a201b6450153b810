"""The groups of a large split, in parts on the disk: memory of a build does not depend on how many there are.

Input: parts as they are chosen (`kinds.choosing`). Output: slices for the shards, read where they are pickled for the
process that writes them, and the parts one after the other for the catalog.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.kinds.columns import ColumnStore, Place
from trm_data.records import Augmentations, Groups

TEXTS = "texts"
"""Hashes, names of files and facts, in one column."""


class GroupsInParts:
    """The groups of one split.

    Args:
        folder: Where they are written; None for the system's folder of temporary files.
    """

    def __init__(self, folder: Path | None) -> None:
        self._store = ColumnStore(folder)
        self._parts: list[_Part] = []
        self.num_base = self.num_puzzles = self.num_examples = 0

    def append(self, groups: Groups) -> None:
        """The next groups."""
        columns = {
            "inputs": groups.inputs,
            "labels": groups.labels,
            "first_examples": groups.first_examples,
            "counts": groups.augmentations.counts,
            "offsets": groups.augmentations.offsets,
            "listed": groups.augmentations.listed,
            "keys": groups.keys,
            "first_identifiers": groups.first_identifiers,
            "source_rows": groups.source_rows,
        }
        table = {"hash": groups.canonical_hashes, "file": groups.source_files, **groups.facts}
        self._parts.append(
            _Part(len(self), len(groups), self._store.append({**columns, TEXTS: _packed(table)}))
        )
        self.num_base += groups.num_base
        self.num_puzzles += groups.num_puzzles
        self.num_examples += groups.num_examples

    def __len__(self) -> int:
        return self._parts[-1].stop if self._parts else 0

    def slice(self, start: int, stop: int) -> GroupsOnDisk:
        """The groups `start` to `stop`."""
        return GroupsOnDisk(self, start, stop)

    def parts(self) -> Iterator[tuple[int, Groups]]:
        """All groups with their facts."""
        for part in self._parts:
            yield part.start, self._read(part)

    def read(self, start: int, stop: int) -> Groups:
        """The groups `start` to `stop`, in memory, with what their rows are made of."""
        return Groups.concatenate(
            [
                self._read(part, texts=False).slice(
                    max(start, part.start) - part.start, min(stop, part.stop) - part.start
                )
                for part in self._parts
                if part.start < stop and start < part.stop
            ]
        )

    def _read(self, part: _Part, *, texts: bool = True) -> Groups:
        """A part, with what only the catalog names if `texts`."""
        columns = self._store.read(part.place, None if texts else part.place.keys() - {TEXTS})
        facts = _unpacked(columns[TEXTS]) if texts else {}
        return Groups(
            inputs=columns["inputs"],
            labels=columns["labels"],
            first_examples=columns["first_examples"],
            augmentations=Augmentations(columns["counts"], columns["offsets"], columns["listed"]),
            keys=columns["keys"],
            first_identifiers=columns["first_identifiers"],
            canonical_hashes=facts.pop("hash").to_pylist() if texts else [],
            source_files=facts.pop("file").to_pylist() if texts else [],
            source_rows=columns["source_rows"],
            facts=facts,
        )


@dataclass(frozen=True)
class GroupsOnDisk:
    """Groups that are read when they are asked for, and where they are pickled for another process.

    They are without facts, hashes and names of files, which rows have nothing of.
    """

    split: GroupsInParts
    start: int
    stop: int

    def whole(self) -> Groups:
        """The groups."""
        return self.split.read(self.start, self.stop)

    def __reduce__(self) -> tuple[object, tuple[Groups]]:
        """Another machine cannot read the disk of this one."""
        return Groups.whole, (self.whole(),)


@dataclass(frozen=True)
class _Part:
    start: int
    count: int
    place: Place

    @property
    def stop(self) -> int:
        return self.start + self.count


def _packed(table: Mapping[str, Any]) -> NDArray[np.uint8]:
    """Columns of any type that a catalog has, as an Arrow stream."""
    import pyarrow as pa

    columns = pa.table(dict(table))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema) as writer:
        writer.write_table(columns)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _unpacked(content: NDArray[np.uint8]) -> dict[str, Any]:
    """Inverse of `_packed`: Arrow columns."""
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
        table = reader.read_all()
    return {name: table.column(name) for name in table.column_names}
