"""Collectives of a compiled program, parsed from its text; and fingerprints of arrays that are equal on any mesh.

A fingerprint has 32 bits, from the bits and positions of an array's elements.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

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


def fingerprints(tree: Any) -> dict[str, int]:
    """Return the 32-bit fingerprint of every leaf, by name; the same on any mesh."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    values = _fingerprint_leaves([leaf for _, leaf in leaves])
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): int(value)
        for (path, _), value in zip(leaves, jax.device_get(values), strict=True)
    }


@jax.jit
def _fingerprint_leaves(leaves: list[jax.Array]) -> list[jax.Array]:
    return [fingerprint(leaf) for leaf in leaves]


def fingerprint(leaf: jax.Array) -> jax.Array:
    """Return the sum, modulo 2^32, over all elements: bits times an odd number from the position. Order-independent."""
    if leaf.dtype == jnp.bool_:
        bits = leaf.astype(jnp.uint32)
    else:
        width = leaf.dtype.itemsize * 8
        bits = jax.lax.bitcast_convert_type(leaf, jnp.dtype(f"uint{width}")).astype(jnp.uint32)
    places = jnp.uint32(1) * jnp.ones(leaf.shape, jnp.uint32)
    stride = 1
    for axis in reversed(range(leaf.ndim)):
        places = places + jax.lax.broadcasted_iota(jnp.uint32, leaf.shape, axis) * jnp.uint32(stride % 2**32)
        stride *= leaf.shape[axis]
    mixed = (bits ^ (bits >> jnp.uint32(15))) * (places * jnp.uint32(2654435769) | jnp.uint32(1))
    return jnp.sum(mixed ^ (mixed >> jnp.uint32(13)), dtype=jnp.uint32)


def batch_fingerprint(batch: Mapping[str, Any]) -> jax.Array:
    """Return a 32-bit fingerprint of a step's rows, in order; the integer type of the rows does not matter."""
    total = jnp.uint32(0)
    for index, name in enumerate(("inputs", "labels", "puzzle_identifiers")):
        total += jnp.uint32(2 * index + 1) * fingerprint(jnp.asarray(batch[name]).astype(jnp.int32))
    return total
