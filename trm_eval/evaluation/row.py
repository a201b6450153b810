"""The row of an evaluation in `evals`, computed from sums over its answers."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.loader.dataset import Dataset
from trm_eval.errors import EvalError
from trm_eval.identity import EVALUATION_VERSION, EvalRequest
from trm_eval.predictions import PredictionWriter
from trm_eval.rollout import Inferred, retention
from trm_train.cost import count_network
from trm_train.runs.record import RunRecord


class Tally:
    """Sums over the rows of an evaluation, updated batch by batch.

    Attributes:
        sums: Metric sums, and `seconds`.
        spent_steps: Total supervision steps of all rows and samples.
        lists: Columns of `evals` with lists of counts that this evaluation has.
    """

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.spent_steps = 0
        self.lists: dict[str, NDArray[np.int64]] = {}

    def add(self, inferred: Inferred, labelled: NDArray[np.bool_]) -> None:
        """Add a batch of rows; `labelled` marks the rows with labels."""
        for name, value in {**inferred.metrics, "seconds": inferred.seconds}.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.spent_steps += inferred.spent
        lists: dict[str, NDArray[np.int64]] = {}
        if inferred.wrong_by_step is not None:
            lists = depth_counts(inferred.wrong_by_step, inferred.halt_steps, labelled)
        if (sampled := inferred.sampled) is not None:
            lists["exact_by_samples"] = sampled.exact_by_samples
            lists["oracle_by_samples"] = sampled.oracle_by_samples
            if sampled.scaling is not None and sampled.course is not None:
                lists["scaling_exact"], lists["scaling_oracle"] = sampled.scaling
                lists["solved_by_depth"], lists["ever_by_depth"], lists["lost_by_depth"] = sampled.course
        for name, counts in lists.items():
            self.lists[name] = self.lists[name] + counts if name in self.lists else counts


def evals_row(
    request: EvalRequest,
    step: int,
    dataset: Dataset,
    predictions: PredictionWriter,
    tally: Tally,
    expected: int,
    record: RunRecord,
) -> dict[str, Any]:
    """Return the row in `evals`."""
    sums, sampling = tally.sums, request.sampling
    seen, right = int(sums["count"]), int(sums["exact_accuracy"])
    unlabelled = predictions.rows - predictions.labelled
    if (seen + unlabelled, right) != (expected, predictions.exact):
        raise EvalError(
            f"evaluated {seen + unlabelled} of {expected} rows, {right} exact on the device and {predictions.exact} in "
            "the predictions: results are not written"
        )
    steps, model = tally.spent_steps / max(predictions.rows, 1), record.config.model
    counted = count_network(model, record.input_spec).flops
    return {
        "evaluation": predictions.evaluation,
        "step": step,
        "weights": request.weights,
        "dataset": dataset.name,
        "split": dataset.split,
        "split_digest": dataset.split_digest,
        "row_limit": request.limit,
        "supervision_steps": predictions.supervision_steps,
        "count": seen,
        "exact_count": right,
        "cells": predictions.cells,
        "wrong_cells": predictions.wrong_cells,
        "q_halt_right_count": int(sums["q_halt_accuracy"]),
        "lm_loss_sum": sums["lm_loss"],
        "seconds": sums["seconds"],
        "evaluation_version": EVALUATION_VERSION,
        "code_version": version("trm-lab"),
        "created_at": datetime.now(UTC),
        "parts": predictions.parts,
        "part_digests": predictions.digests,
        "mode": request.mode,
        "subset_seed": request.subset_seed,
        "identifiers": request.identifiers,
        "spent_steps": tally.spent_steps,
        "samples": None if sampling is None else sampling.samples,
        "noise": None if sampling is None else sampling.noise,
        "selection": None if sampling is None else sampling.selection,
        "sample_seed": None if sampling is None else sampling.seed,
        **{name: counts.tolist() for name, counts in tally.lists.items()},
        "scaling_depths": list(request.depths) if "scaling_exact" in tally.lists else None,
        "precision": request.precision or model.forward_dtype,
        "asked_precision": request.precision,
        "latent_init": request.latent_init,
        "network_calls": steps * model.calls_per_step,
        "flops": None if counted is None else steps * (counted.think + counted.answers),
        "rated_count": predictions.rated,
        **predictions.scored,
    }


def depth_counts(
    wrong_by_step: NDArray[np.int32], halt_steps: NDArray[np.int32], labelled: NDArray[np.bool_]
) -> dict[str, NDArray[np.int64]]:
    """Return counts after 1, 2, ... supervision steps, int64 [steps], by column of `evals`.

    Args:
        wrong_by_step: Number of wrong labelled cells after every step, int32 [steps, n].
        halt_steps: First step with a halting logit above 0, int32 [n]; 0 if none.
        labelled: Whether each row has labels, bool [n]; other rows are not counted.
    """
    right = (wrong_by_step == 0) & labelled
    halting = (halt_steps == np.arange(1, len(wrong_by_step) + 1)[:, None]) & labelled
    _, ever, lost = retention(right)
    return {
        "exact_by_depth": right.sum(axis=1),
        "ever_by_depth": ever,
        "lost_by_depth": lost,
        "wrong_cells_by_depth": wrong_by_step.sum(axis=1, dtype=np.int64),
        "halting_by_depth": halting.sum(axis=1),
        "halting_exact_by_depth": (halting & right).sum(axis=1),
    }
