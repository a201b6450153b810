"""Base of networks made of blocks, and TRM with its variants.

The base has an embedding, one or two levels, two heads and initial states. TRM has two states, with one shared network
of blocks or one for each state.
Source: the TRM paper and its published code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float, Int
from typing_extensions import override

from trm_train.config.model import (
    BlocksConfig,
    ModelConfig,
)
from trm_train.config.run import InputSpec
from trm_train.model.base import FixedLatent, Flops, Network, PuzzleTable, States, table_rows
from trm_train.model.layers import HaltHead, InputEmbedding, Linear, truncated_normal
from trm_train.model.mixer import Level
from trm_train.model.recursion import Levels, mean_squared_change, recurse


class BlockNetwork(Network):
    """Levels of blocks between an embedding and two heads that read one state, the answer.

    Args:
        config: Configuration of the model.
        spec: Input sizes of the dataset.
        levels: Attribute names of the levels.
        initial: Attribute names of the initial vectors [D], at least one for each state.
        rngs: Streams `params` and `latents`.
    """

    answer: ClassVar[str]
    """Name of the state that the heads read."""
    level: Level
    high_level: Level
    """Present only with two networks."""
    h_init: FixedLatent
    l_init: FixedLatent

    def __init__(
        self,
        config: BlocksConfig,
        spec: InputSpec,
        *,
        levels: Sequence[str],
        initial: Sequence[str],
        rngs: nnx.Rngs,
    ):
        width = config.hidden_size
        self.puzzle_positions = config.puzzle_positions
        self.length = self.puzzle_positions + spec.sequence_length
        self.dtype = config.forward_dtype
        self.embedding = InputEmbedding(
            config,
            spec.sequence_length,
            spec.vocabulary_size,
            learned_positions=config.pos_encodings == "learned",
            rngs=rngs,
        )
        for name in levels:
            setattr(self, name, Level(config, self.length, grid=spec.grid, rngs=rngs))
        self.lm_head = Linear(width, spec.vocabulary_size, rngs=rngs)
        self.q_head = HaltHead(width)
        for name in initial:
            setattr(self, name, FixedLatent(truncated_normal(rngs.latents(), (width,), 1.0)))
        if config.puzzle_width > 0:
            rows = table_rows(spec.num_identifiers)
            self.puzzle_table = PuzzleTable(jnp.zeros((rows, config.puzzle_width), jnp.float32))

    def everywhere(self, initial: FixedLatent, slots: int) -> Float[Array, "B L D"]:
        """Return an initial vector at every position of every slot, in the compute dtype."""
        vector = initial[...].astype(self.dtype)
        return jnp.broadcast_to(vector[None, None], (slots, self.length, vector.shape[0]))

    @override
    def logits(self, states: States) -> Float[Array, "B S V"]:
        z = states[self.answer]
        return self.lm_head(lax.slice_in_dim(z, self.puzzle_positions, z.shape[1], axis=1))

    @override
    def q_logits(self, states: States) -> Float[Array, "B 2"]:
        return self.q_head(states[self.answer][:, 0])

    def count(self, level: Level, *, updates: int, with_gradient: int) -> Flops | None:
        """Return the operations of a supervision step, from its number of updates by levels like this one.

        Returns:
            None if a block of the level does not count its operations. The halting head is small and left out.
        """
        update = level.flops(self.length)
        if update is None:
            return None
        answers = self.lm_head.flops(self.length - self.puzzle_positions)
        return Flops(think=updates * update, gradient=with_gradient * update, answers=answers)


class TRM(BlockNetwork):
    """States: `z_h` (answer) and `z_l` (latent), [B, L, D]; multi-scale has `z_l_0`, `z_l_1`, ... for `z_l`.

    With two networks, `level` updates z_L and `high_level` updates z_H. Multi-scale: update k of a cycle replaces the
    k-th z_L by f(sum of all z_L, z_H + e), and z_H reads the sum; each z_L has its own initial vector.
    """

    answer = "z_h"

    def __init__(self, config: ModelConfig, spec: InputSpec, *, rngs: nnx.Rngs):
        scales = config.l_cycles if config.multi_scale else 1
        initial = [f"l_init_{k}" for k in range(scales)] if config.multi_scale else ["l_init"]
        self.latents = tuple(f"z_l_{k}" for k in range(scales)) if config.multi_scale else ("z_l",)
        levels = ["level", "high_level"] if config.two_networks else ["level"]
        super().__init__(config, spec, levels=levels, initial=["h_init", *initial], rngs=rngs)
        self.initial = tuple(initial)
        self.h_cycles, self.l_cycles = config.h_cycles, config.l_cycles
        self.one_step = config.gradient == "one_step"
        self.two_networks = config.two_networks
        self.continue_loss = self.halts_against_continue = not config.no_act_continue

    @override
    def initial_states(self, slots: int) -> States:
        states = {"z_h": self.everywhere(self.h_init, slots)}
        for name, initial in zip(self.latents, self.initial, strict=True):
            states[name] = self.everywhere(getattr(self, initial), slots)
        return states

    @override
    def think(
        self, states: States, inputs: Int[Array, "B S"], puzzle_rows: Float[Array, "B N"] | None
    ) -> States:
        return self.think_from(states, inputs, puzzle_rows)[0]

    @override
    def think_from(
        self, states: States, inputs: Int[Array, "B S"], puzzle_rows: Float[Array, "B N"] | None
    ) -> tuple[States, Float[Array, " B"]]:
        pack, unpack = self.level.pack, self.level.unpack
        z_h, z_l, before = recurse(
            Levels(low=self.level, high=self.high_level if self.two_networks else self.level),
            pack(states["z_h"]),
            tuple(pack(states[name]) for name in self.latents),
            pack(self.embedding(inputs, puzzle_rows)),
            h_cycles=self.h_cycles,
            l_cycles=self.l_cycles,
            one_step=self.one_step,
            recomputes=self.recomputes,
        )
        z_h = unpack(z_h)
        latents = {name: unpack(z) for name, z in zip(self.latents, z_l, strict=True)}
        return {"z_h": z_h, **latents}, mean_squared_change(unpack(before), z_h)

    @override
    def flops(self) -> Flops | None:
        cycle = self.l_cycles + 1
        return self.count(
            self.level, updates=self.h_cycles * cycle, with_gradient=2 if self.one_step else cycle
        )
