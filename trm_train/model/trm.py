"""The Tiny Recursive Model: two states, one level of blocks for both, and two heads.

Source: the TRM paper and its published code.
"""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float, Int

from trm_train.config.model import ModelConfig
from trm_train.config.run import InputSpec
from trm_train.model.base import FixedLatent, Flops, Network, PuzzleTable, States, table_rows
from trm_train.model.embedding import InputEmbedding
from trm_train.model.layers import HaltHead, Linear, truncated_normal
from trm_train.model.mixer import Level
from trm_train.model.recursion import recurse


class TRM(Network):
    """Embeddings, one level of blocks, and the two heads. States: `z_h` (answer) and `z_l` (latent), [B, L, D]."""

    latents = ("z_l",)

    def __init__(self, config: ModelConfig, spec: InputSpec, *, rngs: nnx.Rngs):
        width = config.hidden_size
        self.h_cycles, self.l_cycles = config.h_cycles, config.l_cycles
        self.puzzle_positions = config.puzzle_positions
        self.length = self.puzzle_positions + spec.sequence_length
        self.dtype = config.forward_dtype
        self.continue_loss = self.halts_against_continue = not config.no_act_continue
        self.embedding = InputEmbedding(
            config,
            spec.sequence_length,
            spec.vocabulary_size,
            learned_positions=config.pos_encodings == "learned",
            rngs=rngs,
        )
        self.level = Level(config, self.length, rngs=rngs)
        self.lm_head = Linear(width, spec.vocabulary_size, rngs=rngs)
        self.q_head = HaltHead(width)
        self.h_init = FixedLatent(truncated_normal(rngs.latents(), (width,), 1.0))
        self.l_init = FixedLatent(truncated_normal(rngs.latents(), (width,), 1.0))
        if config.puzzle_width > 0:
            rows = table_rows(spec.num_identifiers)
            self.puzzle_table = PuzzleTable(jnp.zeros((rows, config.puzzle_width), jnp.float32))

    def initial_states(self, slots: int) -> States:
        """H_init and L_init at every position, in the compute dtype."""
        shape = (slots, self.length, self.h_init[...].shape[0])

        def everywhere(latent: Float[Array, " D"]) -> Float[Array, "B L D"]:
            return jnp.broadcast_to(latent.astype(self.dtype)[None, None], shape)

        return {"z_h": everywhere(self.h_init[...]), "z_l": everywhere(self.l_init[...])}

    def think(
        self, states: States, inputs: Int[Array, "B S"], puzzle_rows: Float[Array, "B N"] | None
    ) -> States:
        """`h_cycles` cycles; gradient flows through the last of them."""
        e = self.embedding(inputs, puzzle_rows)
        z_h, z_l, e = (self.level.pack(x) for x in (states["z_h"], states["z_l"], e))
        z_h, z_l = recurse(
            self.level,
            z_h,
            z_l,
            e,
            h_cycles=self.h_cycles,
            l_cycles=self.l_cycles,
            recomputes=self.recomputes,
        )
        return {"z_h": self.level.unpack(z_h), "z_l": self.level.unpack(z_l)}

    def logits(self, states: States) -> Float[Array, "B S V"]:
        """From z_H at the cells, in the compute dtype."""
        z_h = states["z_h"]
        return self.lm_head(lax.slice_in_dim(z_h, self.puzzle_positions, z_h.shape[1], axis=1))

    def q_logits(self, states: States) -> Float[Array, "B 2"]:
        """From z_H at the first position, float32."""
        return self.q_head(states["z_h"][:, 0])

    def flops(self) -> Flops | None:
        """A level for every update of a state; gradient flows through the last cycle. The halting head is small."""
        level = self.level.flops(self.length)
        if level is None:
            return None
        cycle = (self.l_cycles + 1) * level
        return Flops(
            think=self.h_cycles * cycle,
            gradient=cycle,
            answers=self.lm_head.flops(self.length - self.puzzle_positions),
        )
