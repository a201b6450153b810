"""Bidirectional self-attention with optional rotary positions. Source: the TRM paper and its published code."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from trm_train.model.layers import Linear

ROPE_THETA = 10_000.0
SPLASH_BLOCK = 512
"""Block size of splash attention, in positions; rows are padded to a multiple of it."""
SPLASH_MIN_POSITIONS = 256
"""Minimum row length for splash attention; the scores of shorter rows fit in memory."""


def rope_tables(length: int, head_width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines and sines of the rotary angles, float32 [length, head_width / 2].

    Position t rotates the pair (i, i + head_width / 2) by t * theta^(-2 i / head_width).
    """
    exponent = np.arange(0, head_width, 2, dtype=np.float32) / np.float32(head_width)
    frequency = np.float32(1.0) / np.float32(ROPE_THETA) ** exponent
    angle = np.arange(length, dtype=np.float32)[:, None] * frequency[None, :]
    return np.cos(angle), np.sin(angle)


def rotate(x: Float[Array, "B L H K"], cos: np.ndarray, sin: np.ndarray) -> Float[Array, "B L H K"]:
    """Rotate the two halves of every head's width as pairs of coordinates, in float32."""
    return _rotate_pairs(x, cos[None, :, None, :], sin[None, :, None, :], axis=3)


def _rotate_pairs(x: Array, cos: np.ndarray, sin: np.ndarray, axis: int) -> Array:
    """Rotate as `rotate`, with the head width on any axis of `x`; the tables must broadcast to `x`."""
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=axis)
    rotated = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=axis)
    return rotated.astype(x.dtype)


def written_out_attention(
    query: Float[Array, "B Q H K"], key: Float[Array, "B L H K"], value: Float[Array, "B L H K"]
) -> Float[Array, "B Q H K"]:
    """Return attention with its scores [B, H, Q, L] in memory; scores and softmax are float32."""
    scores = jnp.einsum("blhk,bmhk->bhlm", query, key, preferred_element_type=jnp.float32)
    weights = jax.nn.softmax(scores * query.shape[-1] ** -0.5, axis=-1).astype(value.dtype)
    return jnp.einsum("bhlm,bmhk->blhk", weights, value)


def cudnn_attention(
    query: Float[Array, "B L H K"], key: Float[Array, "B L H K"], value: Float[Array, "B L H K"]
) -> Float[Array, "B L H K"]:
    """Return attention by cuDNN, which stores no scores. An odd length is padded by one masked position."""
    batch, length = query.shape[:2]
    if length % 2 == 0:
        return jax.nn.dot_product_attention(query, key, value, implementation="cudnn")
    padded = (jnp.pad(x, ((0, 0), (0, 1), (0, 0), (0, 0))) for x in (query, key, value))
    lengths = jnp.full((batch,), length, jnp.int32)
    mixed = jax.nn.dot_product_attention(
        *padded, query_seq_lengths=lengths, key_value_seq_lengths=lengths, implementation="cudnn"
    )
    return mixed[:, :length]


def splash_attention(
    x: Float[Array, "B L D"],
    qkv: Float[Array, "D _"],
    out: Float[Array, "_ D"],
    heads: int,
    *,
    rope: bool,
    interpret: bool = False,
) -> Float[Array, "B L D"]:
    """Return attention by jax's TPU kernel, which stores no scores; rows are padded to whole blocks and masked.

    Queries, keys and values are [B, H, K, L]: positions are the minor axis, so heads narrower than 128 still fill the
    lanes of the TPU's registers and tiles. `interpret` runs the kernel on any device, slowly, for tests.
    """
    # Imported here because it needs Pallas for TPUs and takes half a second.
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    length = x.shape[1]
    padded = -(-length // SPLASH_BLOCK) * SPLASH_BLOCK
    minor = splash.QKVLayout.SEQ_MINOR
    names = ("q", "kv", "kv_compute", "q_dkv", "kv_dkv", "kv_dkv_compute", "q_dq", "kv_dq")
    sizes: dict[str, Any] = {f"block_{name}": SPLASH_BLOCK for name in names}
    blocks = splash.BlockSizes(**sizes, q_layout=minor, k_layout=minor, v_layout=minor)
    mask = masks.MultiHeadMask([masks.FullMask((padded, padded))] * heads)
    kernel = splash.make_splash_mha_single_device(mask, block_sizes=blocks, interpret=interpret)
    segment = (jnp.arange(padded) < length).astype(jnp.int32)
    segments = splash.SegmentIds(segment, segment)

    x = jnp.pad(x, ((0, 0), (0, padded - length), (0, 0)))
    width = qkv.shape[1] // (3 * heads)
    query, key, value = jnp.einsum("bld,dnhk->nbhkl", x, qkv.reshape(-1, 3, heads, width))
    if rope:
        cos, sin = (table.T[None, None] for table in rope_tables(padded, width))
        query, key = (_rotate_pairs(y, cos, sin, axis=2) for y in (query, key))
    query *= jnp.asarray(width**-0.5, query.dtype)
    query, key, value = (jnp.swapaxes(y, 2, 3) for y in (query, key, value))
    mixed = jax.vmap(lambda q, k, v: kernel(q, k, v, segments))(query, key, value)
    return jnp.einsum("bhlk,hkd->bld", mixed, out.reshape(heads, width, -1))[:, :length]


class Attention(nnx.Module):
    """Every position attends to every position; queries, keys and values come from one matrix.

    Args:
        width: Width D.
        num_heads: Number of heads H. Heads are D // H wide; if H does not divide D, their sum is less than D.
        rope: Whether to rotate queries and keys by their position (all L of them).
    """

    def __init__(self, width: int, num_heads: int, *, rope: bool, rngs: nnx.Rngs):
        self.num_heads, self.head_width = num_heads, width // num_heads
        self.rope, self.kernel = rope, "plain"
        inner = num_heads * self.head_width
        self.qkv = Linear(width, 3 * inner, rngs=rngs)
        self.out = Linear(inner, width, rngs=rngs)

    def __call__(self, x: Float[Array, "B L D"]) -> Float[Array, "B L D"]:
        """Return the attended x; scores and softmax are float32 for any compute dtype."""
        batch, length, _ = x.shape
        if self.kernel == "splash" and type(self) is Attention and length >= SPLASH_MIN_POSITIONS:
            qkv, out = self.qkv.kernel[...].astype(x.dtype), self.out.kernel[...].astype(x.dtype)
            return splash_attention(x, qkv, out, self.num_heads, rope=self.rope)
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
        """Return the attended values of each query, by the platform's kernel where it applies."""
        whole_rows = query.shape == key.shape
        if self.kernel == "cudnn" and whole_rows and query.dtype == jnp.bfloat16 and self.head_width % 8 == 0:
            return cudnn_attention(query, key, value)
        return written_out_attention(query, key, value)

    def flops(self, length: int) -> float:
        """Return the operations of one example with this many positions."""
        products = 4.0 * self.products(length) * self.num_heads * self.head_width
        return self.qkv.flops(length) + self.out.flops(length) + products

    def products(self, length: int) -> float:
        """Return the number of position pairs where one attends to the other."""
        return float(length**2)
