"""What a step is given: a batch of rows, and the puzzle-embedding rows that belong to it.

A batch is a dict of `inputs` and `labels` (any integer dtype, [B, S]) and `puzzle_identifiers` (int32 [B]);
a batch to evaluate may have `weight` (bool [B]), False for rows that only pad it.
"""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Array, Int

Batch = Mapping[str, Array]


def look_up(puzzle_table: Array | None, identifiers: Int[Array, " B"]) -> Array | None:
    """The puzzle-embedding row of every slot, [B, N]."""
    return None if puzzle_table is None else puzzle_table[identifiers]
