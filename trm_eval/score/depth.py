"""Supervision step by supervision step: how much is right after each, and where the network would have halted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def depth_counts(
    wrong_by_step: NDArray[np.int32], halt_steps: NDArray[np.int32], labelled: NDArray[np.bool_]
) -> dict[str, NDArray[np.int64]]:
    """Counts after 1, 2, ... supervision steps, int64 [steps], by the names of the columns of `evals`.

    Args:
        wrong_by_step: Labelled cells that are wrong after every step, int32 [steps, n].
        halt_steps: First step with a halting logit above 0, int32 [n]; 0 where there is none.
        labelled: Rows that have labels, bool [n]; the others are not counted.
    """
    right = (wrong_by_step == 0) & labelled
    halting = (halt_steps == np.arange(1, len(wrong_by_step) + 1)[:, None]) & labelled
    return {
        "exact_by_depth": right.sum(axis=1),
        "wrong_cells_by_depth": wrong_by_step.sum(axis=1, dtype=np.int64),
        "halting_by_depth": halting.sum(axis=1),
        "halting_exact_by_depth": (halting & right).sum(axis=1),
    }
