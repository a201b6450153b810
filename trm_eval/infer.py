"""Predictions of a run's weights for every row of a split: restore, compile, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import numpy as np
from numpy.typing import NDArray

from trm_data.loader.dataset import Dataset
from trm_data.show.progress import Progress
from trm_data.storage.store import Folder
from trm_train.checkpoint.manager import restore_weights
from trm_train.checkpoint.tree import choose_weights, weights_tree
from trm_train.mesh.sharding import make_mesh
from trm_train.run.record import RunRecord
from trm_train.run.resume import check_same_run
from trm_train.run.validate import evaluate_split
from trm_train.state import Weights, abstract_weights
from trm_train.step.evaluate import make_eval_step


@dataclass(frozen=True)
class Inferred:
    """Predictions for some rows of a split, n of S cells.

    Attributes:
        first_row: Row of the first.
        predictions: Tokens, uint8 [n, S].
        q_halt_logits: After the last supervision step, float32 [n].
        halt_steps: First supervision step with a halting logit above 0, int32 [n]; 0 where there is none.
        wrong_by_step: Labelled cells that are wrong after every supervision step, int32 [steps, n].
        metrics: Sums over the rows, as `trm_train.metrics.sums` defines them.
        seconds: Wall-clock time of the batch.
    """

    first_row: int
    predictions: NDArray[np.uint8]
    q_halt_logits: NDArray[np.float32]
    halt_steps: NDArray[np.int32]
    wrong_by_step: NDArray[np.int32]
    metrics: dict[str, float]
    seconds: float


def infer(
    run: Folder,
    record: RunRecord,
    dataset: Dataset,
    *,
    step: int,
    weights: str,
    supervision_steps: int,
    limit: int,
    progress: Progress,
) -> Iterator[Inferred]:
    """Predict every row of a split once, in order.

    Args:
        run: The run's folder.
        record: What the run is.
        dataset: The opened split.
        step: Checkpoint to use.
        weights: `ema` or `raw`.
        supervision_steps: Supervision steps each row is given.
        limit: Rows at most; 0 is all.
        progress: Told of the rows.

    Yields:
        One `Inferred` a batch, without padding.

    Raises:
        CheckpointError: There is no such checkpoint, it is not what was saved, or it is of another run.
    """
    mesh = make_mesh()
    model, shapes = abstract_weights(record.config, record.input_spec, mesh)
    tree, meta = restore_weights(run, step, weights_tree(shapes))
    check_same_run(record, meta, run.place)
    chosen: Weights = choose_weights(tree, weights)
    step_of = make_eval_step(record.config, record.input_spec, model, steps=supervision_steps, by_step=True)
    evaluate = jax.jit(step_of)
    total = min(limit, len(dataset)) if limit else len(dataset)
    progress.start(f"evaluate {dataset.split}", total, "examples")
    for evaluated in evaluate_split(evaluate, chosen, dataset, mesh, limit=limit):
        outputs, count = evaluated.outputs, evaluated.count
        halting = np.asarray(outputs.q_halt_by_step)[:, :count] > 0
        yield Inferred(
            first_row=evaluated.first_row,
            predictions=np.asarray(outputs.predictions)[:count].astype(np.uint8),
            q_halt_logits=np.asarray(outputs.q_halt_logits)[:count],
            halt_steps=np.where(halting.any(axis=0), halting.argmax(axis=0) + 1, 0).astype(np.int32),
            wrong_by_step=np.asarray(outputs.wrong_by_step)[:, :count],
            metrics={name: float(value) for name, value in outputs.metrics.items()},
            seconds=evaluated.seconds,
        )
        progress.advance(count)
