"""Embedding of tokens and puzzle rows into the injected input e [B, L, D].

The puzzle-embedding table is not part of this module: the training step looks up its rows and passes them in, because
their gradient is summed per row instead of stored as a dense table.
Source: the TRM paper and its published code.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from trm_train.config.model import NetworkConfig
from trm_train.model.layers import truncated_normal

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
