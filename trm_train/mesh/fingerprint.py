"""32-bit fingerprints of arrays, from the bits and positions of their elements; equal on any mesh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp


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
