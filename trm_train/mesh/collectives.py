"""Collectives of a compiled program, parsed from its text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

KINDS = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
    "ragged-all-to-all",
    "reduce-scatter",
)
_COLLECTIVE = re.compile(rf"= (.*?) ({'|'.join(KINDS)})(?:-start)?\(")
_ARRAY = re.compile(r"([a-z]+)(\d*)[a-z0-9]*\[([0-9,]*)\]")


@dataclass(frozen=True)
class Collective:
    """One array exchanged by a collective.

    Attributes:
        kind: One of `KINDS`.
        dtype: Type in XLA notation: f32, s32, pred.
        shape: Shape of the result on each device.
    """

    kind: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size of the array on each device."""
        bits = int(re.sub(r"\D", "", self.dtype.split("e")[0]) or 8)
        return math.prod(self.shape) * max(bits // 8, 1)


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """All exchanged arrays of one kind, type and shape in a program.

    Attributes:
        kind: One of `KINDS`.
        array: Type and shape, such as f32[6144,512].
        count: Number of occurrences in the program text; those inside a loop run more often.
        bytes: Total size on each device.
    """

    kind: str
    array: str
    count: int
    bytes: int


def collectives(program: str) -> list[Collective]:
    """Return every array that a compiled program exchanges, from `compiled.as_text()`."""
    return list(_read(program))


def exchanges(program: str) -> list[Exchange]:
    """Return the exchanged arrays grouped by kind, type and shape, the largest first."""
    found: dict[tuple[str, str], list[Collective]] = {}
    for one in _read(program):
        name = f"{one.dtype}[{','.join(map(str, one.shape))}]"
        found.setdefault((one.kind, name), []).append(one)
    summed = [
        Exchange(kind=kind, array=array, count=len(all_of), bytes=sum(one.bytes for one in all_of))
        for (kind, array), all_of in found.items()
    ]
    return sorted(summed, key=lambda one: (-one.bytes, one.kind, one.array))


def _read(program: str) -> Iterator[Collective]:
    for result, kind in _COLLECTIVE.findall(program):
        for letters, bits, shape in _ARRAY.findall(result):
            lengths = tuple(int(length) for length in shape.split(",") if length)
            yield Collective(kind, letters + bits, lengths)
