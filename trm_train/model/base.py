"""Interface of a network, and its split into a definition and trees of arrays.

A network has states that persist across supervision steps, and answers computed from them. The states are a dict of
arrays by name, each with the slot axis B first. The steps, the carry and the checkpoint accept any subclass of
`Network`; `networks.py` lists them all.

The variables of a network have three kinds, and only the kind decides how they are treated:

    nnx.Param     trained by the optimizer, decayed, averaged
    FixedLatent   initial states: never trained, decayed or averaged, but part of every checkpoint
    PuzzleTable   the puzzle embedding: rows learn by sign-SGD, never averaged

Source: the TRM paper and its published code.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from flax import nnx
from jaxtyping import Array, Float, Int

TABLE_ROWS_MULTIPLE = 128
"""The row count of the puzzle-embedding table is padded to a multiple of this, independent of the mesh."""

Tree = dict[str, Any]
States = dict[str, Any]
"""Arrays by name, with the slot axis B first. The names are those of leaves in a checkpoint."""


class FixedLatent(nnx.Variable):
    """An initial state of the recursion: drawn once, never trained."""


class PuzzleTable(nnx.Variable):
    """The puzzle-embedding table [R, N]."""


class Outputs(NamedTuple):
    """Output of one supervision step of a network."""

    states: States
    logits: Any
    """Float [B, S, V]; None when no longer needed."""
    q_logits: Float[Array, "B 2"]
    """Float32; entry 0 is halt, entry 1 is continue (used with the continue loss only)."""
    cycle_change: Float[Array, " B"] | None = None
    """Mean squared change of the answer state over the last cycle, float32; gradient flows only to the later state.
None for networks without cycles."""


class Flops(NamedTuple):
    """Operations of one example in one supervision step: matrix products, counted from the shapes (FLOP)."""

    think: float
    """Operations of `think`."""
    gradient: float
    """Operations of the part of `think` with gradient."""
    answers: float
    """Operations of `logits` and `q_logits`."""


class Network(nnx.Module):
    """One supervision step as `think`, and answers read from the states after it.

    A network is created from its configuration, an `InputSpec` and `rngs` with the streams `params` and `latents`. It
    has a `PuzzleTable` named `puzzle_table` if it has puzzle positions. Its modules are attributes, not lists, so that
    every key of the parameter tree is a string.
    """

    continue_loss: bool = False
    """Whether training needs a target for the continue logit: the logits one supervision step later."""
    halts_against_continue: bool = False
    """Whether a slot halts when its halting logit is above the continue logit, instead of above 0."""
    recomputes: bool = False
    """Whether the backward pass recomputes the activations inside a level to save memory."""

    latents: tuple[str, ...] = ()
    """Names of the states to which sampling adds noise; if empty, sampling is not supported."""

    def initial_states(self, slots: int) -> States:
        """Return the states of slots that start an example."""
        raise NotImplementedError

    def think(
        self, states: States, inputs: Int[Array, "B S"], puzzle_rows: Float[Array, "B N"] | None
    ) -> States:
        """Return the states after one supervision step; gradient flows as in the published network of this kind.

        Args:
            states: States before the step.
            inputs: Tokens of the slots' current examples.
            puzzle_rows: Puzzle-embedding row of each slot; None without puzzle positions.
        """
        raise NotImplementedError

    def think_from(
        self, states: States, inputs: Int[Array, "B S"], puzzle_rows: Float[Array, "B N"] | None
    ) -> tuple[States, Float[Array, " B"] | None]:
        """Return `think` and `Outputs.cycle_change`."""
        return self.think(states, inputs, puzzle_rows), None

    def logits(self, states: States) -> Float[Array, "B S V"]:
        """Return the logits of the cells, in the compute dtype."""
        raise NotImplementedError

    def q_logits(self, states: States) -> Float[Array, "B 2"]:
        """Return the halt and continue logits, float32."""
        raise NotImplementedError

    def halt_margin(self, q_logits: Float[Array, "B 2"]) -> Float[Array, " B"]:
        """Return the halting margin: above 0 where a slot is confident of its answer."""
        return q_logits[:, 0] - q_logits[:, 1] if self.halts_against_continue else q_logits[:, 0]

    def flops(self) -> Flops | None:
        """Return the operations of one example in one supervision step; None if unknown (runs then have no FLOPs)."""
        return None

    def __call__(
        self, states: States, inputs: Int[Array, "B S"], puzzle_rows: Float[Array, "B N"] | None
    ) -> Outputs:
        """Take one supervision step and compute its answers."""
        states, change = self.think_from(states, inputs, puzzle_rows)
        return Outputs(states, self.logits(states), self.q_logits(states), change)


def table_rows(num_identifiers: int) -> int:
    """Return R: rows of the puzzle-embedding table for this many identifiers, padding included."""
    return -(-num_identifiers // TABLE_ROWS_MULTIPLE) * TABLE_ROWS_MULTIPLE


def split(network: Network) -> tuple[nnx.GraphDef, Tree, Tree, Any]:
    """Return a network's definition, trained parameters, fixed latents and puzzle table (or None)."""
    definition, params, fixed, table = nnx.split(network, nnx.Param, FixedLatent, PuzzleTable)
    table = nnx.to_pure_dict(table).get("puzzle_table")
    return definition, nnx.to_pure_dict(params), nnx.to_pure_dict(fixed), table


def merge(definition: nnx.GraphDef, params: Tree, fixed: Tree, table: Array | None) -> Network:
    """Inverse of `split`."""
    return nnx.merge(definition, params, fixed, {} if table is None else {"puzzle_table": table})
