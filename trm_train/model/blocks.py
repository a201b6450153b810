"""Base of networks made of blocks: embedding, one or two levels, two heads and initial states.

Source: the TRM paper and its published code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float
from typing_extensions import override

from trm_train.config.model import BlocksConfig
from trm_train.config.run import InputSpec
from trm_train.model.base import FixedLatent, Flops, Network, PuzzleTable, States, table_rows
from trm_train.model.embedding import InputEmbedding
from trm_train.model.layers import HaltHead, Linear, truncated_normal
from trm_train.model.mixer import Level


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
