"""What an evaluation finds out about some rows, whatever way they were answered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trm_train.step.answers import Answers


@dataclass(frozen=True)
class Sampled:
    """What several samples a row add, of K samples and n rows.

    Attributes:
        chosen: Number of the sample that answers, from 0, int32 [n].
        oracle: Whether any sample is exact, bool [n].
        exact_by_samples: Rows whose answer, chosen among the first 1, 2, ... K samples, is exact, int64 [K].
        oracle_by_samples: Rows of which one of the first 1, 2, ... K samples is exact, int64 [K].
    """

    chosen: NDArray[np.int32]
    oracle: NDArray[np.bool_]
    exact_by_samples: NDArray[np.int64]
    oracle_by_samples: NDArray[np.int64]


@dataclass(frozen=True)
class Inferred:
    """Predictions for some rows of a split, n of S cells.

    Attributes:
        rows: Of the split, in order, int64 [n].
        predictions: Tokens, uint8 [n, S].
        q_halt_logits: After the last supervision step, float32 [n].
        halt_steps: First supervision step with a halting logit above 0, int32 [n]; 0 where there is none.
        steps: Supervision steps spent on the answer, int32 [n].
        wrong_by_step: Labelled cells that are wrong after every supervision step, int32 [steps, n]; None where rows
            are not all given the same steps, or are answered several times.
        metrics: Sums over the rows, as `trm_train.metrics.sums` defines them.
        seconds: Wall-clock time they took.
        spent: Supervision steps that the rows were thought about in all, samples included.
        sampled: What samples add; None without.
    """

    rows: NDArray[np.int64]
    predictions: NDArray[np.uint8]
    q_halt_logits: NDArray[np.float32]
    halt_steps: NDArray[np.int32]
    steps: NDArray[np.int32]
    wrong_by_step: NDArray[np.int32] | None
    metrics: dict[str, float]
    seconds: float
    spent: int
    sampled: Sampled | None = None


def metrics_of(answers: Answers) -> dict[str, float]:
    """Sums over the rows of answers, those with labels."""
    labelled, right = answers.labelled_cells > 0, answers.wrong_cells == 0
    return {
        "count": int(labelled.sum()),
        "exact_accuracy": int((right & labelled).sum()),
        "q_halt_accuracy": int((((answers.q_halt_logits >= 0) == right) & labelled).sum()),
        "lm_loss": float(answers.lm_loss[labelled].sum(dtype=np.float64)),
    }
