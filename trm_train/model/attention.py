"""Bidirectional self-attention with optional rotary positions. Source: the TRM paper and its published code."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from trm_train.model.layers import Linear

ROPE_THETA = 10_000.0


def rope_tables(length: int, head_width: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of the rotary angles, float32 [length, head_width / 2].

    Position t turns the pair (i, i + head_width / 2) by t * theta^(-2 i / head_width).
    """
    exponent = np.arange(0, head_width, 2, dtype=np.float32) / np.float32(head_width)
    frequency = np.float32(1.0) / np.float32(ROPE_THETA) ** exponent
    angle = np.arange(length, dtype=np.float32)[:, None] * frequency[None, :]
    return np.cos(angle), np.sin(angle)


def rotate(x: Float[Array, "B L H K"], cos: np.ndarray, sin: np.ndarray) -> Float[Array, "B L H K"]:
    """Turns the two halves of every head's width as pairs of coordinates, in float32."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    cos, sin = cos[None, :, None, :], sin[None, :, None, :]
    turned = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return turned.astype(x.dtype)


class Attention(nnx.Module):
    """Every position attends to every position; queries, keys and values come from one matrix.

    Args:
        width: D.
        num_heads: H. Heads are D // H wide; where H does not divide D, all heads together are narrower than D.
        rope: Whether queries and keys are turned by their position (all L of them).
    """

    def __init__(self, width: int, num_heads: int, *, rope: bool, rngs: nnx.Rngs):
        self.num_heads, self.head_width = num_heads, width // num_heads
        self.rope = rope
        inner = num_heads * self.head_width
        self.qkv = Linear(width, 3 * inner, rngs=rngs)
        self.out = Linear(inner, width, rngs=rngs)

    def __call__(self, x: Float[Array, "B L D"]) -> Float[Array, "B L D"]:
        """Scores and their softmax are float32 whatever the compute dtype."""
        batch, length, _ = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3 * self.num_heads, self.head_width)
        query, key, value = jnp.split(qkv, 3, axis=2)
        if self.rope:
            cos, sin = rope_tables(length, self.head_width)
            query, key = rotate(query, cos, sin), rotate(key, cos, sin)
        mixed = self.mix(query, key, value)
        return self.out(mixed.reshape(batch, length, self.num_heads * self.head_width))

    def mix(
        self,
        query: Float[Array, "B Q H K"],
        key: Float[Array, "B L H K"],
        value: Float[Array, "B L H K"],
    ) -> Float[Array, "B Q H K"]:
        """The values that each query attends to."""
        scores = jnp.einsum("blhk,bmhk->bhlm", query, key, preferred_element_type=jnp.float32)
        weights = jax.nn.softmax(scores * self.head_width**-0.5, axis=-1).astype(value.dtype)
        return jnp.einsum("bhlm,bmhk->blhk", weights, value)

    def flops(self, length: int) -> float:
        """Operations of one example with this many positions."""
        products = 4.0 * self.products(length) * self.num_heads * self.head_width
        return self.qkv.flops(length) + self.out.flops(length) + products

    def products(self, length: int) -> float:
        """Pairs of positions of which one attends to the other."""
        return float(length**2)
