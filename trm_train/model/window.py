"""Attention of grid cells to nearby cells: linear in the number of cells, while full attention is quadratic.

A cell attends to the cells within Chebyshev distance R (a square of 2R + 1 cells a side, cut at the edges of the grid)
and to all puzzle positions; a puzzle position attends to every position. The result and the parameters are those of
`Attention` with a mask, but products that the mask would discard are not computed: keys and values are shifted over the
grid, one neighbour at a time.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax
from jaxtyping import Array, Float
from typing_extensions import override

from trm_train.model.attention import Attention


class WindowAttention(Attention):
    """Attention of cells to a window of the grid and to the puzzle positions.

    Args:
        width: Width D.
        num_heads: Number of heads H.
        rope: Whether to rotate queries and keys by their position.
        puzzle_positions: Number P of positions before the cells.
        grid: Rows and columns; the cells follow the P positions, row by row.
        distance: Distance R.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        *,
        rope: bool,
        puzzle_positions: int,
        grid: tuple[int, int],
        distance: int,
        rngs: nnx.Rngs,
    ):
        super().__init__(width, num_heads, rope=rope, rngs=rngs)
        self.puzzle_positions, self.grid = puzzle_positions, grid
        rows, columns = grid
        self.reach = min(distance, rows - 1), min(distance, columns - 1)

    @override
    def mix(
        self,
        query: Float[Array, "B L H K"],
        key: Float[Array, "B L H K"],
        value: Float[Array, "B L H K"],
    ) -> Float[Array, "B L H K"]:
        """Return the attended values; scores, softmax and the sum over neighbours are float32 for any compute dtype."""
        p, scale = self.puzzle_positions, self.head_width**-0.5
        puzzle = super().mix(query[:, :p], key, value)
        cells, near = (self._on_grid(x[:, p:]) for x in (query, key))
        scores = self._scores(cells, near) * scale
        # [N + P, B, R, C, H]: the neighbours and the puzzle positions of every cell
        of_puzzle = jnp.einsum("brchk,bphk->pbrch", cells, key[:, :p], preferred_element_type=jnp.float32)
        weights = jax.nn.softmax(jnp.concatenate([scores, of_puzzle * scale]), axis=0).astype(value.dtype)
        mixed = self._sum(weights[: len(scores)], self._on_grid(value[:, p:]))
        mixed += jnp.einsum(
            "pbrch,bphk->brchk",
            weights[len(scores) :],
            value[:, :p],
            preferred_element_type=jnp.float32,
        )
        return jnp.concatenate([puzzle, mixed.astype(value.dtype).reshape(value[:, p:].shape)], axis=1)

    @override
    def products(self, length: int) -> float:
        """Return the number of multiplied pairs: cells and neighbours (also past an edge), puzzle positions and all."""
        p = self.puzzle_positions
        cells = length - p
        return cells * (len(self._shifts()) + p) + float(p * length)

    def _on_grid(self, x: Float[Array, "B S H K"]) -> Float[Array, "B R C H K"]:
        return x.reshape(x.shape[0], *self.grid, *x.shape[2:])

    def _shifts(self) -> np.ndarray:
        """Return row and column of every neighbour, [N, 2], in the padded grid."""
        down, right = self.reach
        return np.stack(
            np.meshgrid(np.arange(2 * down + 1), np.arange(2 * right + 1), indexing="ij"), -1
        ).reshape(-1, 2)

    def _inside(self) -> np.ndarray:
        """Return whether each neighbour of each cell is on the grid, [N, R, C]."""
        rows, columns = self.grid
        down, right = (self._shifts()[:, i, None, None] - self.reach[i] for i in (0, 1))
        row, column = np.arange(rows)[None, :, None] + down, np.arange(columns)[None, None, :] + right
        return (row >= 0) & (row < rows) & (column >= 0) & (column < columns)

    def _shifted(self, padded: Float[Array, "B _ _ H K"], shift: Array) -> Float[Array, "B R C H K"]:
        """Return the neighbour of every cell at one shift."""
        sizes = (padded.shape[0], *self.grid, *padded.shape[3:])
        zero = jnp.zeros((), shift.dtype)
        return lax.dynamic_slice(padded, (zero, shift[0], shift[1], zero, zero), sizes)

    def _padded(self, x: Float[Array, "B R C H K"]) -> Float[Array, "B _ _ H K"]:
        down, right = self.reach
        return jnp.pad(x, ((0, 0), (down, down), (right, right), (0, 0), (0, 0)))

    def _scores(self, query: Array, key: Array) -> Float[Array, "N B R C H"]:
        """Return the score of every cell with each neighbour; -inf beyond the edges."""
        # Both are cast back in every shift, so that their derivatives add the shifts in float32.
        dtype, query, padded = key.dtype, query.astype(jnp.float32), self._padded(key).astype(jnp.float32)

        @jax.checkpoint  # recomputing a shift is cheaper than storing it
        def of_shift(query: Array, padded: Array, shift: Array, inside: Array) -> Array:
            query, near = query.astype(dtype), self._shifted(padded, shift).astype(dtype)
            scores = jnp.einsum("brchk,brchk->brch", query, near, preferred_element_type=jnp.float32)
            return jnp.where(inside[None, :, :, None], scores, -jnp.inf)

        return lax.map(
            lambda each: of_shift(query, padded, *each),
            (jnp.asarray(self._shifts()), jnp.asarray(self._inside())),
        )

    def _sum(self, weights: Float[Array, "N B R C H"], value: Array) -> Float[Array, "B R C H K"]:
        """Return the weighted sum of the neighbours' values, float32."""

        @partial(jax.checkpoint, prevent_cse=False)
        def weighted(padded: Array, shift: Array, weight: Array) -> Array:
            return weight[..., None].astype(jnp.float32) * self._shifted(padded, shift)

        padded = self._padded(value).astype(
            jnp.float32
        )  # also the dtype in which the derivative adds the shifts
        start = jnp.zeros(value.shape, jnp.float32)
        total, _ = lax.scan(
            lambda sum_, each: (sum_ + weighted(padded, *each), None),
            start,
            (jnp.asarray(self._shifts()), weights),
        )
        return total
