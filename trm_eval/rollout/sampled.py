"""Several answers a row, of which one is chosen by what the network itself says of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from trm_eval.rollout.inferred import Inferred, Sampled, metrics_of
from trm_eval.rollout.rows import RowReader
from trm_eval.rollout.select import Selection, choices
from trm_train.step.answers import Answers
from trm_train.training.validate import Evaluate, evaluate_split


def answer_sampled(
    program: Evaluate,
    weights: Any,
    reader: RowReader,
    rows: NDArray[np.int64],
    mesh: Mesh,
    *,
    supervision_steps: int,
    selection: Selection,
) -> Iterator[Inferred]:
    """Chosen answers of rows in order, a batch at a time.

    Args:
        program: A compiled step of `trm_train.step.sample`.
        weights: What to evaluate.
        reader: The split.
        rows: Which rows.
        mesh: Devices the batches are spread over.
        supervision_steps: That each sample is given.
        selection: How one of the samples is chosen.
    """
    for evaluated in evaluate_split(program, weights, reader, mesh, rows):
        count = len(evaluated.rows)
        samples: Answers = jax.tree.map(lambda leaf, n=count: np.asarray(leaf)[:, :n], evaluated.outputs)
        tokens = reader.decode(samples.predictions)
        best = choices(selection, tokens, samples.margins, samples.halt_steps)
        chosen, at = best[-1], np.arange(count)
        answer: Answers = jax.tree.map(lambda leaf, chosen=chosen, at=at: leaf[chosen, at], samples)
        right = (samples.wrong_cells == 0) & (samples.labelled_cells > 0)
        oracle = np.maximum.accumulate(right, axis=0)
        yield Inferred(
            rows=evaluated.rows,
            predictions=reader.decode(answer.predictions),
            q_halt_logits=answer.q_halt_logits,
            halt_steps=answer.halt_steps,
            steps=np.full(count, supervision_steps, np.int32),
            wrong_by_step=None,
            metrics=metrics_of(answer),
            seconds=evaluated.seconds,
            spent=supervision_steps * count * len(tokens),
            sampled=Sampled(
                chosen=chosen,
                oracle=oracle[-1],
                exact_by_samples=np.take_along_axis(right, best, axis=0).sum(axis=1),
                oracle_by_samples=oracle.sum(axis=1),
            ),
        )
