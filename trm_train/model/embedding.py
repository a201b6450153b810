"""Embedding of tokens and puzzle rows into the injected input e [B, L, D].

The puzzle-embedding table is not part of this module: the training step looks up its rows and passes them in, because
their gradient is summed per row instead of stored as a dense table.
Source: the TRM paper and its published code.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from trm_train.config.model import NetworkConfig
from trm_train.model.layers import truncated_normal

POSITION_SCALE = math.sqrt(0.5)
"""Factor that restores the variance of the content embedding after position embeddings are added."""


@jax.custom_vjp
def look_up_tokens(table: Float[Array, "V D"], tokens: Int[Array, "B S"]) -> Float[Array, "B S D"]:
    """Look up rows of a small table; the derivative is a matrix product.

    The derivative of a plain lookup is a scatter. On a GPU, all cells of a batch then add to the same dozen rows one
    after another, which took 28% of a training step (H200, batch 768).
    """
    return table[tokens]


def _look_up_forward(table: Array, tokens: Array) -> tuple[Array, tuple[Array, int]]:
    return table[tokens], (tokens, table.shape[0])


def _look_up_backward(saved: tuple[Array, int], dy: Array) -> tuple[Array, None]:
    tokens, rows = saved
    chosen = jax.nn.one_hot(tokens, rows, dtype=dy.dtype)
    summed = jnp.einsum("bsv,bsd->vd", chosen, dy, preferred_element_type=jnp.float32)
    return summed.astype(dy.dtype), None


look_up_tokens.defvjp(_look_up_forward, _look_up_backward)


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
        table = self.tokens[...].astype(self.dtype)
        x = table[inputs] if self.scatters else look_up_tokens(table, inputs)
        if puzzle_rows is not None:
            x = jnp.concatenate([self._puzzle(puzzle_rows), x], axis=1)
        if self.learned_positions:
            x = (x + self.positions[...].astype(self.dtype)[None]) * POSITION_SCALE
        return x * math.sqrt(self.width)

    def _puzzle(self, rows: Float[Array, "B N"]) -> Float[Array, "B P D"]:
        """Return a row as P vectors of width D, padded with zeros after its N numbers."""
        padding = self.puzzle_positions * self.width - rows.shape[1]
        rows = jnp.pad(rows.astype(self.dtype), ((0, 0), (0, padding)))
        return rows.reshape(rows.shape[0], self.puzzle_positions, self.width)
