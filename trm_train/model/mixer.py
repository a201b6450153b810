"""Post-norm blocks, and the level made of them: mixing over positions, then over the width.

A level computes in the layout that suits its mixer and the platform: [B, L, D] for attention; for `mlp_t` on a CPU
[L, B, D], where both products of a block are single matrix products over contiguous memory and nothing is transposed
between blocks. `Level.pack` and `Level.unpack` convert between [B, L, D] and that layout; the recursion stays packed
for a whole supervision step. Other packages add blocks through the entry point `trm_train.mixers`; if a block has no
method `flops`, its runs have no FLOPs.
Source: the TRM paper and its published code.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from trm_train.config.model import BlocksConfig
from trm_train.errors import ConfigError
from trm_train.extensions import load_extension
from trm_train.model.attention import Attention
from trm_train.model.layers import SwiGLU, rms_norm
from trm_train.model.window import WindowAttention


class AttentionBlock(nnx.Module):
    """x = norm(x + attention(x)); x = norm(x + SwiGLU(x))."""

    positions_first = False

    def __init__(self, config: BlocksConfig, length: int, *, rngs: nnx.Rngs):
        del length  # attention takes any
        rope = config.pos_encodings == "rope"
        self.attention = Attention(config.hidden_size, config.num_heads, rope=rope, rngs=rngs)
        self.mlp = SwiGLU(config.hidden_size, config.expansion, rngs=rngs)

    def __call__(self, x: Float[Array, "B L D"]) -> Float[Array, "B L D"]:
        """Return the state after attention between positions and a SwiGLU at each position."""
        x = rms_norm(x + self.attention(x))
        return rms_norm(x + self.mlp(x))

    def flops(self, length: int) -> float:
        """Return the operations of one example with this many positions."""
        return self.attention.flops(length) + self.mlp.flops(length)


class TokenMlpBlock(nnx.Module):
    """As `AttentionBlock`, with a SwiGLU over the positions instead of attention; its norm is over positions too.

    Positions are on the axis `token_mlp.axis`: the first, or the second (`networks.py`).
    """

    positions_first = True

    def __init__(self, config: BlocksConfig, length: int, *, rngs: nnx.Rngs):
        self.token_mlp = SwiGLU(length, config.expansion, axis=0, rngs=rngs)
        self.mlp = SwiGLU(config.hidden_size, config.expansion, rngs=rngs)

    def __call__(self, x: Float[Array, ...]) -> Float[Array, ...]:
        """Return the state after a SwiGLU over its positions and one at each; [L, B, D] or [B, L, D]."""
        x = rms_norm(x + self.token_mlp(x), axis=self.token_mlp.axis)
        return rms_norm(x + self.mlp(x))

    def flops(self, length: int) -> float:
        """Return the operations of one example with this many positions; the token SwiGLU acts on every column."""
        return self.token_mlp.flops(self.mlp.width) + self.mlp.flops(length)


class WindowBlock(AttentionBlock):
    """An attention block whose cells attend to nearby cells and to the puzzle positions (`window.py`)."""

    needs_grid = True

    def __init__(self, config: BlocksConfig, length: int, *, grid: tuple[int, int] | None, rngs: nnx.Rngs):
        if grid is None:
            raise ConfigError(
                f"model.mixer: rows of this dataset have no fixed grid (got {config.mixer}; expected another mixer). "
                "Choose --model.mixer attention, or build a table with flat rows with --grid RxC."
            )
        self.attention = WindowAttention(
            config.hidden_size,
            config.num_heads,
            rope=config.pos_encodings == "rope",
            puzzle_positions=config.puzzle_positions,
            grid=grid,
            distance=config.window,
            rngs=rngs,
        )
        self.mlp = SwiGLU(config.hidden_size, config.expansion, rngs=rngs)


BLOCKS: dict[str, Any] = {
    "mlp_t": TokenMlpBlock,
    "attention": AttentionBlock,
    "window": WindowBlock,
}
"""Block class of each mixer of this package. `positions_first` gives its memory layout; `needs_grid` says whether its
constructor takes the grid's shape."""


class Level(nnx.Module):
    """f(z, injection): adds the injection to the state, then runs the blocks.

    Blocks are attributes `block_0`, `block_1`, ... so that every key of the parameter tree is a string.
    """

    def __init__(
        self, config: BlocksConfig, length: int, *, grid: tuple[int, int] | None = None, rngs: nnx.Rngs
    ):
        block = BLOCKS.get(config.mixer) or load_extension("mixers", config.mixer, BLOCKS, "model.mixer")
        self.positions_first = block.positions_first
        self.num_layers = config.num_layers
        of_grid = {"grid": grid} if getattr(block, "needs_grid", False) else {}
        for i in range(config.num_layers):
            setattr(self, f"block_{i}", block(config, length, **of_grid, rngs=rngs))

    def __call__(self, z: Float[Array, ...], injection: Float[Array, ...]) -> Float[Array, ...]:
        """Return the new state; input and output are packed."""
        x = z + injection
        for i in range(self.num_layers):
            x = getattr(self, f"block_{i}")(x)
        return x

    def flops(self, length: int) -> float | None:
        """Return the operations of one example with this many positions; None if a block does not count them."""
        total = 0.0
        for i in range(self.num_layers):
            of_block = getattr(getattr(self, f"block_{i}"), "flops", None)
            if of_block is None:
                return None
            total += of_block(length)
        return total

    def pack(self, x: Float[Array, "B L D"]) -> Float[Array, ...]:
        """Convert [B, L, D] to the layout that the blocks compute in."""
        return jnp.swapaxes(x, 0, 1) if self.positions_first else x

    def unpack(self, x: Float[Array, ...]) -> Float[Array, "B L D"]:
        """Convert the layout that the blocks compute in to [B, L, D]."""
        return jnp.swapaxes(x, 0, 1) if self.positions_first else x
