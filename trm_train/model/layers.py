"""Layers of all networks: linear maps, RMS norm, SwiGLU, and the embedding into the injected input e [B, L, D].

Weights are stored in float32 as [in, out] and cast to the dtype of their input at use, so the compute dtype
is decided once, by the embedding. The puzzle-embedding table is not part of the embedding: the training step looks up
its rows and passes them in, because their gradient is summed per row instead of stored as a dense table.
Source: the TRM paper and its published code.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float, Int

from trm_train.config.model import NetworkConfig, inner_width

RMS_EPSILON = 1e-5
HALT_BIAS = -5.0
"""Initial bias of both halting logits; prevents slots from halting before training has taught them to."""

CUT = 2.0
"""Truncation of normal draws, in standard deviations of the untruncated normal."""


def _sd_after_cut(cut: float) -> float:
    """Return the standard deviation of a standard normal restricted to [-cut, cut]."""
    density = math.exp(-0.5 * cut * cut) / math.sqrt(2.0 * math.pi)
    mass = math.erf(cut / math.sqrt(2.0))
    return math.sqrt(1.0 - 2.0 * cut * density / mass)


def truncated_normal(key: jax.Array, shape: Sequence[int], sd: float) -> Float[Array, ...]:
    """Return normal draws cut at 2 sd and rescaled so that the result has standard deviation `sd`."""
    draws = jax.random.truncated_normal(key, -CUT, CUT, tuple(shape), jnp.float32)
    return draws * (sd / _sd_after_cut(CUT))


def rms_norm(x: Float[Array, ...], axis: int = -1) -> Float[Array, ...]:
    """Divide by the root mean square over `axis`, in float32; no learned scale."""
    x_f32 = x.astype(jnp.float32)
    mean_square = jnp.mean(jnp.square(x_f32), axis=axis, keepdims=True)
    return (x_f32 * lax.rsqrt(mean_square + RMS_EPSILON)).astype(x.dtype)


def product(x: Float[Array, ...], kernel: Float[Array, "I O"], axis: int) -> Float[Array, ...]:
    """Map one axis of x from width I to width O: the first (0), the last (-1), or the middle one of three (1)."""
    if axis == 0:
        return lax.dot_general(kernel, x, (((0,), (0,)), ((), ())))
    if axis == 1:
        return jnp.einsum("bid,io->bod", x, kernel)
    return lax.dot_general(x, kernel, (((x.ndim - 1,), (0,)), ((), ())))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def product_for_cpu(x: Float[Array, ...], kernel: Float[Array, "I O"], axis: int) -> Float[Array, ...]:
    """Return `product` over the first or the last axis, with a hand-written derivative for CPUs.

    Every product of the derivative is one matrix product that reads memory in order. The automatic derivative of a
    product is a product and a transpose, and XLA on CPU then transposes the larger operand (measured: half of the
    backward pass over the token axis).
    """
    return product(x, kernel, axis)


def _linear_forward(x: Array, kernel: Array, axis: int) -> tuple[Array, tuple[Array, Array]]:
    return product(x, kernel, axis), (x, kernel)


def _linear_backward(axis: int, saved: tuple[Array, Array], dy: Array) -> tuple[Array, Array]:
    x, kernel = saved
    if axis == 0:
        dx = lax.dot_general(kernel, dy, (((1,), (0,)), ((), ())))
        flat_x, flat_dy = x.reshape(x.shape[0], -1), dy.reshape(dy.shape[0], -1)
        return dx, lax.dot_general(flat_x, flat_dy, (((1,), (1,)), ((), ())))
    dx = lax.dot_general(dy, kernel, (((dy.ndim - 1,), (1,)), ((), ())))
    # Not flattened, because a batch split over devices is the inner one of the leading axes. The compiler copies the
    # first operand, so the narrower one comes first.
    others = tuple(range(x.ndim - 1))
    contract = ((others, others), ((), ()))
    if kernel.shape[0] <= kernel.shape[1]:
        return dx, lax.dot_general(x, dy, contract)
    return dx, lax.optimization_barrier(lax.dot_general(dy, x, contract)).T


product_for_cpu.defvjp(_linear_forward, _linear_backward)


class Linear(nnx.Module):
    """A linear map without bias over one axis of its input (see `product`)."""

    def __init__(self, fan_in: int, fan_out: int, *, axis: int = -1, rngs: nnx.Rngs):
        self.axis, self.written_derivative = axis, True
        self.kernel = nnx.Param(truncated_normal(rngs.params(), (fan_in, fan_out), fan_in**-0.5))

    def __call__(self, x: Float[Array, ...]) -> Float[Array, ...]:
        """Return the product, in the dtype of x."""
        multiply = product_for_cpu if self.written_derivative else product
        return multiply(x, self.kernel[...].astype(x.dtype), self.axis)

    def flops(self, rows: int) -> float:
        """Return the operations for this many rows."""
        fan_in, fan_out = self.kernel.shape
        return 2.0 * rows * fan_in * fan_out


def gated(gate: Float[Array, ...], up: Float[Array, ...]) -> Float[Array, ...]:
    """Return silu(gate) * up in the dtype of up, computed in float32: a TPU v4 adds and multiplies nothing narrower."""
    return (jax.nn.silu(gate.astype(jnp.float32)) * up.astype(jnp.float32)).astype(up.dtype)


@functools.partial(jax.checkpoint, static_argnums=1)
def gated_halves(gate_up: Float[Array, ...], axis: int) -> Float[Array, ...]:
    """Return `gated` of the two halves; intermediates are recomputed in the backward pass, not stored."""
    return gated(*jnp.split(gate_up, 2, axis=axis))


class SwiGLU(nnx.Module):
    """down(silu(gate) * up) over one axis; gate and up are one matrix, gate first.

    With `two_products` the matrix is split at use: one product for each half, instead of one product whose result is
    split. The parameters are the same.
    """

    def __init__(self, width: int, expansion: float, *, axis: int = -1, rngs: nnx.Rngs):
        inner = inner_width(width, expansion)
        self.axis, self.width, self.two_products = axis, width, False
        self.gate_up = Linear(width, 2 * inner, axis=axis, rngs=rngs)
        self.down = Linear(inner, width, axis=axis, rngs=rngs)

    def __call__(self, x: Float[Array, ...]) -> Float[Array, ...]:
        """Apply to the configured axis; other axes are batch axes."""
        if self.two_products:
            halves = jnp.split(self.gate_up.kernel[...].astype(x.dtype), 2, axis=1)
            gate, up = (product(x, kernel, self.axis) for kernel in halves)
            return self.down(gated(gate, up))
        return self.down(gated_halves(self.gate_up(x), self.axis))

    def flops(self, rows: int) -> float:
        """Return the operations for this many rows."""
        return self.gate_up.flops(rows) + self.down.flops(rows)


class HaltHead(nnx.Module):
    """Halting logits (halt, continue) from the state at one position; weights start at zero."""

    def __init__(self, width: int):
        self.kernel = nnx.Param(jnp.zeros((width, 2), jnp.float32))
        self.bias = nnx.Param(jnp.full((2,), HALT_BIAS, jnp.float32))

    def __call__(self, z: Float[Array, "B D"]) -> Float[Array, "B 2"]:
        """Return float32 logits, computed in the dtype of z."""
        logits = jnp.dot(z, self.kernel[...].astype(z.dtype))
        # Cast after the broadcast, so that the derivative adds the batch in float32.
        bias = jnp.broadcast_to(self.bias[...][None], logits.shape).astype(z.dtype)
        return (logits + bias).astype(jnp.float32)


POSITION_SCALE = math.sqrt(0.5)
"""Factor that restores the variance of the content embedding after position embeddings are added."""


def look_up_by_scatter(
    table: Float[Array, "V D"], tokens: Int[Array, "B S"], dtype: Any
) -> Float[Array, "B S D"]:
    """Look up float32 rows and cast them to `dtype`; the derivative is a scatter.

    The rows are cast after the lookup, so the derivative adds in float32. A scatter of bfloat16 rows adds in bfloat16,
    where 256 + 1 = 256: with 6,144 rows of 81 cells, most of the sum is lost.
    """
    return table[tokens].astype(dtype)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def look_up_by_product(
    table: Float[Array, "V D"], tokens: Int[Array, "B S"], dtype: Any
) -> Float[Array, "B S D"]:
    """Return `look_up_by_scatter` of a small table; the derivative is a matrix product, summed in float32.

    On a GPU, all cells of a batch would scatter to the same dozen rows one after another, which took 28% of a training
    step (H200, batch 768).
    """
    return look_up_by_scatter(table, tokens, dtype)


def _look_up_forward(table: Array, tokens: Array, dtype: Any) -> tuple[Array, tuple[Array, int]]:
    return look_up_by_scatter(table, tokens, dtype), (tokens, table.shape[0])


def _look_up_backward(dtype: Any, saved: tuple[Array, int], dy: Array) -> tuple[Array, None]:
    tokens, rows = saved
    one_hot = jax.nn.one_hot(tokens, rows, dtype=dtype)
    return jnp.einsum("bsv,bsd->vd", one_hot, dy, preferred_element_type=jnp.float32), None


look_up_by_product.defvjp(_look_up_forward, _look_up_backward)


class InputEmbedding(nnx.Module):
    """Puzzle positions and token embeddings, with learned positions if configured, scaled by sqrt(D)."""

    def __init__(
        self, config: NetworkConfig, cells: int, vocabulary: int, *, learned_positions: bool, rngs: nnx.Rngs
    ):
        width = config.hidden_size
        self.width = width
        self.puzzle_positions = config.puzzle_positions
        self.dtype = config.forward_dtype
        self.learned_positions, self.scatters = learned_positions, True
        self.tokens = nnx.Param(truncated_normal(rngs.params(), (vocabulary, width), width**-0.5))
        if self.learned_positions:
            length = self.puzzle_positions + cells
            self.positions = nnx.Param(truncated_normal(rngs.params(), (length, width), width**-0.5))

    def __call__(
        self, inputs: Int[Array, "B S"], puzzle_rows: Float[Array, "B N"] | None
    ) -> Float[Array, "B L D"]:
        """Return e in the compute dtype; `puzzle_rows` is None for a model without puzzle positions."""
        look_up = look_up_by_scatter if self.scatters else look_up_by_product
        x: Array = look_up(self.tokens[...], inputs, self.dtype)  # pyright: ignore[reportAssignmentType]
        if puzzle_rows is not None:
            x = jnp.concatenate([self._puzzle(puzzle_rows), x], axis=1)
        if self.learned_positions:
            # Cast after the broadcast, so that the derivative adds the batch in float32.
            positions = jnp.broadcast_to(self.positions[...][None], x.shape).astype(self.dtype)
            x = (x + positions) * POSITION_SCALE
        return x * math.sqrt(self.width)

    def _puzzle(self, rows: Float[Array, "B N"]) -> Float[Array, "B P D"]:
        """Return a row as P vectors of width D, padded with zeros after its N numbers."""
        padding = self.puzzle_positions * self.width - rows.shape[1]
        rows = jnp.pad(rows.astype(self.dtype), ((0, 0), (0, padding)))
        return rows.reshape(rows.shape[0], self.puzzle_positions, self.width)
