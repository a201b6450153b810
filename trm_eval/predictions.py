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
"""Rows of one part, except the last; memory holds at most this many plus one batch."""


class PredictionWriter:
    """Scores batches in order, and writes a part of the table when there are enough rows.

    The rows of a part do not depend on the batch size or the devices.

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
        rows: Number of rows so far.
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
        self._pending: list[pa.Table] = []
        self._kind = load_kind(dataset.manifest.kind)
        self._ratings = ratings

    def add(self, batch: Inferred) -> NDArray[np.bool_]:
        """Score the next batch; return which of its n rows have labels, bool [n]."""
        count, sampled = len(batch.rows), batch.sampled
        rows = self._dataset.read(batch.rows)
        inputs, labels = (rows[name].astype(np.uint8) for name in ("inputs", "labels"))
        picks = self._dataset.groups.picks(batch.rows)
        wrong, cells = wrong_cells(batch.predictions, labels), labelled_cells(labels)
        labelled, exact = cells > 0, (cells > 0) & (wrong == 0)
        ratings = self._ratings[picks.groups]
        self._pending.append(
            pa.table(
                {
                    "evaluation": pa.array([self.evaluation] * count),
                    "row": batch.rows,
                    "group_index": picks.groups.astype(np.int32),
                    "augmentation": picks.augmentations.astype(np.int32),
                    "exact": pa.array(exact, mask=~labelled),
                    "cells": cells,
                    "wrong_cells": wrong,
                    "steps": batch.steps,
                    "halt_step": pa.array(batch.halt_steps, mask=batch.halt_steps == 0),
                    "q_halt_logit": batch.q_halt_logits,
                    "prediction": token_lists(batch.predictions),
                    "rating": pa.array(ratings, mask=np.isnan(ratings)),
                    "sample": pa.nulls(count, pa.int32()) if sampled is None else sampled.chosen,
                    "oracle_exact": pa.nulls(count, pa.bool_()) if sampled is None else sampled.oracle,
                    **self._score(inputs, labels, batch.predictions, labelled),
                }
            )
        )
        self.rows += count
        self.labelled += int(labelled.sum())
        self.exact += int(exact.sum())
        self.cells += int(cells.sum())
        self.wrong_cells += int(wrong.sum())
        self.rated += int((~np.isnan(ratings)).sum())
        while sum(map(len, self._pending)) >= PART_EXAMPLES:
            self._write()
        return labelled

    def finish(self) -> None:
        """Write the remaining rows."""
        if sum(map(len, self._pending)):
            self._write()

    def _write(self) -> None:
        """Write the first pending rows as one part."""
        pending, name = pa.concat_tables(self._pending), f"{self.evaluation}-{len(self.parts):05d}"
        self._pending = [pending.slice(PART_EXAMPLES)]
        part = pending.slice(0, PART_EXAMPLES).combine_chunks()  # one chunk: the same bytes for any batches
        part = part.append_column("part", pa.array([name] * len(part)))
        record = self._record
        written = write_table(self._layout, "predictions", record.experiment, record.run, name, part)
        self.parts.append(name)
        self.digests.append(digest_of(written) or "")

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


def wrong_cells(predictions: NDArray[np.uint8], labels: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return the number of wrong labelled cells, int32 [N], for tokens [N, S]."""
    return ((predictions != labels) & (labels != PAD)).sum(axis=1, dtype=np.int32)


def labelled_cells(labels: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return the number of labelled cells, int32 [N], for tokens [N, S]."""
    return (labels != PAD).sum(axis=1, dtype=np.int32)
