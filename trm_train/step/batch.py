"""The input of a step: a batch of rows.

A batch is a dict of `inputs` and `labels` (any integer dtype, [B, S]) and `puzzle_identifiers` (int32 [B]); of a
mixture also `tasks` (int32 [B]), the position of each row's dataset in it;
a batch to evaluate may have `weight` (bool [B]), False for rows that only pad it.
"""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Array

Batch = Mapping[str, Array]
