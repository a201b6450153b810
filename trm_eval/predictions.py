"""Collects the predictions of an evaluation, scores them, and writes them as parts of the table `predictions`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trm_data.encode import PAD
from trm_data.kinds.registry import load_kind
from trm_data.loader.dataset import Dataset
from trm_data.storage.atomic import digest_of
from trm_data.storage.root import Layout
from trm_eval.errors import EvalError
from trm_eval.rollout import Inferred
from trm_eval.tables.schema import NOTIONS
from trm_eval.tables.writer import token_lists, write_table
from trm_train.runs.record import RunRecord

PART_EXAMPLES = 65_536
"""Rows from which a part is written; memory holds at most this many plus one batch."""


class PredictionWriter:
    """Collects batches in order, and writes them as a part of the table when they have enough rows.

    Args:
        layout: Root for the results.
        record: Record of the run.
        evaluation: Id of the evaluation.
        dataset: Split whose rows are answered.
        supervision_steps: Maximum number of supervision steps per row.
        ratings: Rating of every group of the split, float32 [G]; NaN if unrated (`trm_data.catalog.read.read_ratings`).

    Attributes:
        evaluation: Id of the evaluation; names of parts start with it.
        supervision_steps: Maximum number of supervision steps per row.
        parts: Names of the parts written so far, without digests.
        digests: Digests in the names of the parts.
        rows: Number of rows written so far.
        labelled: Number of these rows with labels.
        exact: Number of rows with every labelled cell correct.
        cells: Number of labelled cells.
        wrong_cells: Number of wrong labelled cells.
        scored: Number of rows with each property that the puzzle's kind checks (`kinds.base.Scores`), by column of
            `evals`; None if the kind does not check it.
        rated: Number of rows whose puzzle has a rating.
    """

    def __init__(
        self,
        layout: Layout,
        record: RunRecord,
        evaluation: str,
        dataset: Dataset,
        supervision_steps: int,
        ratings: NDArray[np.float32],
    ) -> None:
        self.evaluation = evaluation
        self.supervision_steps = supervision_steps
        self.parts: list[str] = []
        self.digests: list[str] = []
        self.rows = self.labelled = self.exact = self.cells = self.wrong_cells = self.rated = 0
        self._layout = layout
        self._record = record
        self._dataset = dataset
        self.scored: dict[str, int | None] = {f"{notion}_count": None for notion in NOTIONS}
        self._pending: list[Inferred] = []
        self._kind = load_kind(dataset.manifest.kind)
        self._ratings = ratings

    def add(self, batch: Inferred) -> NDArray[np.bool_]:
        """Add the next batch; return which of its n rows have labels, bool [n]."""
        self._pending.append(batch)
        if sum(len(pending.rows) for pending in self._pending) >= PART_EXAMPLES:
            self._write()
        return labelled_cells(self._dataset.read(batch.rows)["labels"].astype(np.uint8)) > 0

    def finish(self) -> None:
        """Write the remaining rows."""
        if self._pending:
            self._write()

    def _write(self) -> None:
        """Score the pending rows, and write them as one part."""
        batches, self._pending = self._pending, []
        name = f"{self.evaluation}-{len(self.parts):05d}"
        predictions = np.concatenate([batch.predictions for batch in batches])
        count = len(predictions)
        rows = np.concatenate([batch.rows for batch in batches])
        batch = self._dataset.read(rows)
        inputs, labels = (batch[name].astype(np.uint8) for name in ("inputs", "labels"))
        picks = self._dataset.groups.picks(rows)
        wrong, cells = wrong_cells(predictions, labels), labelled_cells(labels)
        labelled, exact = cells > 0, (cells > 0) & (wrong == 0)
        halt_steps = np.concatenate([batch.halt_steps for batch in batches])
        ratings = self._ratings[picks.groups]
        table = pa.table(
            {
                "evaluation": pa.array([self.evaluation] * count),
                "part": pa.array([name] * count),
                "row": rows,
                "group_index": picks.groups.astype(np.int32),
                "augmentation": picks.augmentations.astype(np.int32),
                "exact": pa.array(exact, mask=~labelled),
                "cells": cells,
                "wrong_cells": wrong,
                "steps": np.concatenate([batch.steps for batch in batches]),
                "halt_step": pa.array(halt_steps, mask=halt_steps == 0),
                "q_halt_logit": np.concatenate([batch.q_halt_logits for batch in batches]),
                "prediction": token_lists(predictions),
                "rating": pa.array(ratings, mask=np.isnan(ratings)),
                **_sampled(batches, count),
                **self._score(inputs, labels, predictions, labelled),
            }
        )
        record = self._record
        written = write_table(self._layout, "predictions", record.experiment, record.run, name, table)
        self.parts.append(name)
        self.digests.append(digest_of(written) or "")
        self.rows += count
        self.labelled += int(labelled.sum())
        self.exact += int(exact.sum())
        self.cells += int(cells.sum())
        self.wrong_cells += int(wrong.sum())
        self.rated += int((~np.isnan(ratings)).sum())

    def _score(
        self,
        inputs: NDArray[np.uint8],
        labels: NDArray[np.uint8],
        predictions: NDArray[np.uint8],
        labelled: NDArray[np.bool_],
    ) -> dict[str, pa.Array]:
        """Return the kind's scores of N rows, a column for each property; count them over rows with labels."""
        kind, count = self._kind, len(predictions)
        scores = kind.score(self._dataset.manifest.spec, inputs, labels, predictions)
        columns: dict[str, pa.Array] = {}
        for notion in NOTIONS:
            found = getattr(scores, notion)
            if found is not None and (found.shape != (count,) or found.dtype != np.bool_):
                raise EvalError(
                    f"kind {kind.name}: score gave {notion} as {found.dtype} {found.shape}, expected bool ({count},)"
                )
            columns[notion] = pa.nulls(count, pa.bool_()) if found is None else pa.array(found)
            if found is not None:
                self.scored[f"{notion}_count"] = (self.scored[f"{notion}_count"] or 0) + int(
                    (found & labelled).sum()
                )
        return columns


def _sampled(batches: list[Inferred], count: int) -> dict[str, pa.Array]:
    """Return the columns of sampled rows; NULL without sampling."""
    found = [batch.sampled for batch in batches if batch.sampled is not None]
    if not found:
        return {"sample": pa.nulls(count, pa.int32()), "oracle_exact": pa.nulls(count, pa.bool_())}
    return {
        "sample": pa.array(np.concatenate([batch.chosen for batch in found])),
        "oracle_exact": pa.array(np.concatenate([batch.oracle for batch in found])),
    }


def wrong_cells(predictions: NDArray[np.uint8], labels: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return the number of wrong labelled cells, int32 [N], for tokens [N, S]."""
    return ((predictions != labels) & (labels != PAD)).sum(axis=1, dtype=np.int32)


def labelled_cells(labels: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return the number of labelled cells, int32 [N], for tokens [N, S]."""
    return (labels != PAD).sum(axis=1, dtype=np.int32)
