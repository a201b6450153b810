"""The Tiny Recursive Model as one flax module, and its split into a definition and plain trees of arrays.

The module holds three kinds of variables, and the kind alone decides what happens to them:

    nnx.Param     trained by AdamATan2, decayed, averaged
    FixedLatent   H_init and L_init: never trained, decayed or averaged, but part of every checkpoint
    PuzzleTable   the puzzle embedding: rows learn by sign-SGD, never averaged

Source: the TRM paper and its published code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float, Int

from trm_train.config.run import InputSpec, ModelConfig
from trm_train.errors import ConfigError
from trm_train.model.embedding import InputEmbedding, puzzle_positions, puzzle_width
from trm_train.model.layers import Linear, truncated_normal
from trm_train.model.mixer import Level
from trm_train.model.recursion import recurse

HALT_BIAS = -5.0
"""Initial bias of both halting logits, so that no slot halts early before it has learnt to."""

TABLE_ROWS_MULTIPLE = 128
"""Rows of the puzzle-embedding table are padded to a multiple of this, whatever the mesh is."""

Tree = dict[str, Any]


class FixedLatent(nnx.Variable):
    """An initial state of the recursion: drawn once, never trained."""


class PuzzleTable(nnx.Variable):
    """The puzzle-embedding table [R, N]."""


class Outputs(NamedTuple):
    """What one supervision step of the network returns."""

    z_h: Float[Array, "B L D"]
    z_l: Float[Array, "B L D"]
    logits: Float[Array, "B S V"]
    q_logits: Float[Array, "B 2"]
    """Float32; entry 0 is halt, entry 1 is continue (unused)."""


class HaltHead(nnx.Module):
    """Halting logits from the first position of z_H; weights start at zero."""

    def __init__(self, width: int):
        self.kernel = nnx.Param(jnp.zeros((width, 2), jnp.float32))
        self.bias = nnx.Param(jnp.full((2,), HALT_BIAS, jnp.float32))

    def __call__(self, z: Float[Array, "B D"]) -> Float[Array, "B 2"]:
        """In float32, computed in the dtype of z."""
        logits = jnp.dot(z, self.kernel[...].astype(z.dtype)) + self.bias[...].astype(z.dtype)[None]
        return logits.astype(jnp.float32)


class TRM(nnx.Module):
    """Embeddings, one level of blocks, and the two heads."""

    def __init__(self, config: ModelConfig, spec: InputSpec, *, rngs: nnx.Rngs):
        check_model(config)
        width = config.hidden_size
        self.h_cycles, self.l_cycles = config.h_cycles, config.l_cycles
        self.puzzle_positions = puzzle_positions(config)
        self.length = self.puzzle_positions + spec.sequence_length
        self.dtype = config.forward_dtype
        self.embedding = InputEmbedding(config, spec.sequence_length, spec.vocabulary_size, rngs=rngs)
        self.level = Level(config, self.length, rngs=rngs)
        self.lm_head = Linear(width, spec.vocabulary_size, rngs=rngs)
        self.q_head = HaltHead(width)
        self.h_init = FixedLatent(truncated_normal(rngs.latents(), (width,), 1.0))
        self.l_init = FixedLatent(truncated_normal(rngs.latents(), (width,), 1.0))
        if puzzle_width(config) > 0:
            rows = table_rows(spec.num_identifiers)
            self.puzzle_table = PuzzleTable(jnp.zeros((rows, puzzle_width(config)), jnp.float32))

    def __call__(
        self,
        z_h: Float[Array, "B L D"],
        z_l: Float[Array, "B L D"],
        inputs: Int[Array, "B S"],
        puzzle_rows: Float[Array, "B N"] | None,
    ) -> Outputs:
        """One supervision step: gradient flows through the last of the `h_cycles` cycles."""
        z_h, z_l = self.think(z_h, z_l, inputs, puzzle_rows)
        return Outputs(z_h=z_h, z_l=z_l, logits=self.logits(z_h), q_logits=self.q_head(z_h[:, 0]))

    def think(
        self,
        z_h: Float[Array, "B L D"],
        z_l: Float[Array, "B L D"],
        inputs: Int[Array, "B S"],
        puzzle_rows: Float[Array, "B N"] | None,
    ) -> tuple[Float[Array, "B L D"], Float[Array, "B L D"]]:
        """The states after one supervision step."""
        e = self.embedding(inputs, puzzle_rows)
        z_h, z_l, e = (self.level.pack(x) for x in (z_h, z_l, e))
        z_h, z_l = recurse(self.level, z_h, z_l, e, h_cycles=self.h_cycles, l_cycles=self.l_cycles)
        return self.level.unpack(z_h), self.level.unpack(z_l)

    def logits(self, z_h: Float[Array, "B L D"]) -> Float[Array, "B S V"]:
        """Of the cells, in the compute dtype."""
        return self.lm_head(lax.slice_in_dim(z_h, self.puzzle_positions, z_h.shape[1], axis=1))

    def initial_states(self, batch: int) -> tuple[Float[Array, "B L D"], Float[Array, "B L D"]]:
        """H_init and L_init at every position."""
        shape = (batch, self.length, self.h_init[...].shape[0])
        latents = (self.h_init[...], self.l_init[...])
        z_h, z_l = (jnp.broadcast_to(x.astype(self.dtype)[None, None], shape) for x in latents)
        return z_h, z_l


def check_model(config: ModelConfig) -> None:
    """Refuses a model configuration that cannot be run.

    Raises:
        ConfigError: naming the key, its value and what is allowed.
    """
    for name in ("hidden_size", "num_heads", "num_layers", "h_cycles", "l_cycles", "halt_max_steps"):
        if getattr(config, name) < 1:
            raise ConfigError(f"model.{name}: expected at least 1, got {getattr(config, name)}")
    if config.mixer == "attention" and config.hidden_size % config.num_heads:
        raise ConfigError(
            f"model.num_heads: expected a divisor of hidden_size {config.hidden_size}, got {config.num_heads}"
        )
    rope = config.mixer == "attention" and config.pos_encodings == "rope"
    if rope and (config.hidden_size // config.num_heads) % 2:
        raise ConfigError("model.pos_encodings: rope needs an even width per head (hidden_size / num_heads)")
    if not config.no_act_continue:
        raise ConfigError("model.no_act_continue: the continue loss is not available, expected true")
    room = puzzle_positions(config) * config.hidden_size
    if puzzle_width(config) > room:
        raise ConfigError(
            f"model.puzzle_emb_ndim: expected at most puzzle_emb_len * hidden_size = {room}, "
            f"got {puzzle_width(config)}"
        )


def table_rows(num_identifiers: int) -> int:
    """R: rows of the puzzle-embedding table for this many identifiers, padding included."""
    return -(-num_identifiers // TABLE_ROWS_MULTIPLE) * TABLE_ROWS_MULTIPLE


def split(network: TRM) -> tuple[nnx.GraphDef, Tree, Tree, Any]:
    """A network's definition, trained parameters, fixed latents and puzzle table (or None)."""
    definition, params, fixed, table = nnx.split(network, nnx.Param, FixedLatent, PuzzleTable)
    table = nnx.to_pure_dict(table).get("puzzle_table")
    return definition, nnx.to_pure_dict(params), nnx.to_pure_dict(fixed), table


def merge(definition: nnx.GraphDef, params: Tree, fixed: Tree, table: Array | None) -> TRM:
    """Inverse of `split`."""
    return nnx.merge(definition, params, fixed, {} if table is None else {"puzzle_table": table})
