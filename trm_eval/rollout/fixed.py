"""Every row a fixed number of supervision steps: the published evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from trm_eval.rollout.inferred import Inferred
from trm_eval.rollout.rows import RowReader
from trm_train.training.validate import Evaluate, evaluate_split


def answer_fixed(
    program: Evaluate, weights: Any, reader: RowReader, rows: NDArray[np.int64], mesh: Mesh
) -> Iterator[Inferred]:
    """Answers of rows in order, a batch at a time, with what is wrong after every supervision step.

    Args:
        program: A compiled evaluation step that says so (`by_step`).
        weights: What to evaluate.
        reader: The split.
        rows: Which rows.
        mesh: Devices the batches are spread over.
    """
    for evaluated in evaluate_split(program, weights, reader, mesh, rows):
        outputs, count = evaluated.outputs, len(evaluated.rows)
        halting = np.asarray(outputs.q_halt_by_step)[:, :count] > 0
        steps = len(halting)
        yield Inferred(
            rows=evaluated.rows,
            predictions=reader.decode(np.asarray(outputs.predictions)[:count]),
            q_halt_logits=np.asarray(outputs.q_halt_logits)[:count],
            halt_steps=np.where(halting.any(axis=0), halting.argmax(axis=0) + 1, 0).astype(np.int32),
            steps=np.full(count, steps, np.int32),
            wrong_by_step=np.asarray(outputs.wrong_by_step)[:, :count],
            metrics={name: float(value) for name, value in outputs.metrics.items()},
            seconds=evaluated.seconds,
            spent=steps * count,
        )
