"""Input of a step: a batch of rows.

A batch is a dict of `inputs` and `labels` (any integer dtype, [B, S]) and `puzzle_identifiers` (int32 [B]). For a
mixture it also has `tasks` (int32 [B]), the position of each row's dataset in the mixture.
For evaluation it may have `weight` (bool [B]), False for padding rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Array

Batch = Mapping[str, Array]
