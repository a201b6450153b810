"""What an evaluation is asked for, and the id that follows from it.

The id hashes everything that decides an evaluation's rows, so writing it again replaces it. What in the code decides
them stands in one number, which is raised on purpose: `tests/trm_eval/test_golden.py` fails when predictions change
and the number does not.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

from trm_data.loader.dataset import Dataset
from trm_data.specs import canonical_json
from trm_train.run.record import RunRecord

EVALUATION_VERSION = 1
"""Raised whenever the same checkpoint, rows and request would give other predictions or scores."""

WhichWeights = Literal["ema", "raw"]


@dataclass(frozen=True, kw_only=True)
class EvalRequest:
    """What to evaluate.

    Attributes:
        checkpoint: A step, `last`, or `best` (highest exact accuracy on the validation split).
        split: None is test if there is one, else validation.
        limit: Rows at most, from the first; 0 is all.
        weights: Averaged or raw parameters.
        supervision_steps: None is as many as training gives at most.
    """

    checkpoint: str = "last"
    split: str | None = None
    limit: int = 0
    weights: WhichWeights = "ema"
    supervision_steps: int | None = None


def evaluation_id(
    record: RunRecord, request: EvalRequest, step: int, supervision_steps: int, dataset: Dataset
) -> str:
    """Hash of everything that decides an evaluation's rows: the same evaluation replaces itself."""
    content = {
        "run": record.run,
        "content_digest": record.content_digest,
        "step": step,
        "weights": request.weights,
        "supervision_steps": supervision_steps,
        "split": dataset.split,
        "split_digest": dataset.split_digest,
        "limit": request.limit,
        "evaluation_version": EVALUATION_VERSION,
    }
    return hashlib.sha256(canonical_json(content)).hexdigest()[:16]
