"""What must be equal in all processes of an evaluation: run, checkpoint, rows, options, code, libraries."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from typing import Any

import trm_data
import trm_eval
import trm_train
from trm_data.loader.dataset import Dataset
from trm_data.specs import canonical_json
from trm_eval.identity import EvalRequest
from trm_train.checkpoint.manager import fingerprints
from trm_train.runs.record import RunRecord
from trm_train.state import Weights
from trm_train.training.prepare import code_digest, leaves, library_versions


def evaluation_facts(
    record: RunRecord, request: EvalRequest, step: int, supervision_steps: int, dataset: Dataset
) -> dict[str, Any]:
    """What this process would evaluate, with what; plain JSON values by name.

    Args:
        record: The run.
        request: How its rows are answered.
        step: The checkpoint.
        supervision_steps: Each row is given, at most.
        dataset: The split.
    """
    return {
        "run": record.run,
        "configuration": record.identity,
        **dict(leaves(asdict(request))),
        "checkpoint": step,
        "supervision_steps": supervision_steps,
        "dataset": dataset.name,
        "dataset content digest": dataset.content_digest,
        "split": dataset.split,
        "split digest": dataset.split_digest,
        "code of trm_data, trm_train and trm_eval": code_digest(trm_data, trm_train, trm_eval),
        **library_versions(),
    }


def digest_of_weights(weights: Weights) -> str:
    """sha256 over the fingerprints of all arrays, as this process holds them; 16 digits of it."""
    return hashlib.sha256(canonical_json(fingerprints(weights))).hexdigest()[:16]
