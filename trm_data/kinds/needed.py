"""How many candidates a choice will have to see: what `kinds.choosing` does, with shares in place of puzzles."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trm_data.kinds.cached import BLOCK_CANDIDATES
from trm_data.specs import DatasetSpec

LEAST_ASKED, MOST_ASKED = 64, 4_096
"""Candidates that a choice asks a generator for at a time."""
MISSES_ALLOWED = 20_000
"""Generated puzzles in a row that may be unusable before a build gives up; ten times as many where only some are
wanted."""


def candidates_needed(spec: DatasetSpec, shares: Sequence[float] = (1.0,), *, slow: bool = False) -> float:
    """Candidates that a generator makes for all splits of a specification, about.

    Args:
        spec: Of generated puzzles.
        shares: Of all candidates, that are usable for each bucket from which a split takes its puzzles in turn.
        slow: The generator makes whole blocks.
    """
    return sum(
        _of_split(count, shares, slow=slow) for count in (spec.size, spec.val_size, spec.test_size) if count
    )


def _of_split(count: int, shares: Sequence[float], *, slow: bool) -> float:
    patience = MISSES_ALLOWED * (10 if tuple(shares) != (1.0,) else 1)
    quotas = [float(-(-(count - bucket) // len(shares))) for bucket in range(len(shares))]
    made = 0.0
    while (left := sum(quotas)) >= 0.5:
        usable = sum(share for quota, share in zip(quotas, shares, strict=True) if quota > 0)
        if usable * patience < 1:  # none comes for so long that a build gives up
            return made + patience
        asked = min(max(math.ceil(left), LEAST_ASKED), MOST_ASKED)
        asked *= max(round(left / asked / 8), 1)  # many times in one go, as long as most is missing after it
        asked = BLOCK_CANDIDATES * -(-asked // BLOCK_CANDIDATES) if slow else asked
        made += asked
        quotas = [max(quota - asked * share, 0.0) for quota, share in zip(quotas, shares, strict=True)]
    return made
