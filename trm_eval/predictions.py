"""Collects the predictions of an evaluation, scores them, and writes them as parts of the table `predictions`."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from trm_data.loader.dataset import Dataset
from trm_data.storage.digested import digest_of
from trm_data.storage.root import Layout
from trm_eval.rollout.inferred import Inferred
from trm_eval.score.cells import labelled_cells, wrong_cells
from trm_eval.tables.writer import part_names_of, table_folder, token_lists, write_table
from trm_train.run.record import RunRecord

PART_EXAMPLES = 65_536
"""Rows of one part, about: what is held in memory."""


class PredictionWriter:
    """Takes batches in order and writes a part whenever enough rows have come.

    Attributes:
        evaluation: Id of the evaluation; parts are named by it.
        supervision_steps: Supervision steps each row was given, at most.
        parts: Names of the parts written so far, without digests.
        digests: The digest in the name of each.
        exact: Rows with every labelled cell right.
        cells: Labelled cells.
        wrong_cells: Labelled cells that are wrong.
    """

    def __init__(
        self, layout: Layout, record: RunRecord, evaluation: str, dataset: Dataset, supervision_steps: int
    ) -> None:
        self.evaluation = evaluation
        self.supervision_steps = supervision_steps
        self.parts: list[str] = []
        self.digests: list[str] = []
        self.exact = self.cells = self.wrong_cells = 0
        self._layout = layout
        self._record = record
        self._dataset = dataset
        self._pending: list[Inferred] = []

    def add(self, batch: Inferred) -> None:
        """Take the next batch."""
        self._pending.append(batch)
        if sum(len(pending.predictions) for pending in self._pending) >= PART_EXAMPLES:
            self._write()

    def finish(self) -> None:
        """Write what is left."""
        if self._pending:
            self._write()

    def named_before(self) -> list[str]:
        """Files that an earlier evaluation of this id names; none where its row is damaged: they stay, unnamed."""
        folder = table_folder(self._layout, "evals", self._record.experiment, self._record.run)
        found: list[str] = []
        for path in folder.currents(folder.names(f"{self.evaluation}.*")):
            with suppress(pa.ArrowException, UnicodeDecodeError, OSError, KeyError, TypeError):
                for row in pq.ParquetFile(path).read().to_pylist():
                    found += part_names_of(row["parts"], row.get("part_digests"))
        return found

    def drop(self, names: list[str]) -> None:
        """Remove files that nothing names any more, unless they are among the new ones."""
        folder = table_folder(self._layout, "predictions", self._record.experiment, self._record.run)
        for name in set(names) - set(part_names_of(self.parts, self.digests)):
            folder.delete(name)

    def _write(self) -> None:
        """Score and write the pending batches as one part."""
        batches, self._pending = self._pending, []
        name = f"{self.evaluation}-{len(self.parts):05d}"
        predictions = np.concatenate([batch.predictions for batch in batches])
        count = len(predictions)
        rows = np.concatenate([batch.rows for batch in batches])
        labels = self._dataset.read(rows)["labels"].astype(np.uint8)
        picks = self._dataset.groups.picks(rows)
        wrong, cells = wrong_cells(predictions, labels), labelled_cells(labels)
        halt_steps = np.concatenate([batch.halt_steps for batch in batches])
        table = pa.table(
            {
                "evaluation": pa.array([self.evaluation] * count),
                "part": pa.array([name] * count),
                "row": rows,
                "group_index": picks.groups.astype(np.int32),
                "augmentation": picks.augmentations.astype(np.int32),
                "exact": pa.array(wrong == 0),
                "cells": cells,
                "wrong_cells": wrong,
                "steps": np.concatenate([batch.steps for batch in batches]),
                "halt_step": pa.array(halt_steps, mask=halt_steps == 0),
                "q_halt_logit": np.concatenate([batch.q_halt_logits for batch in batches]),
                "prediction": token_lists(predictions),
                **_sampled(batches, count),
            }
        )
        record = self._record
        written = write_table(self._layout, "predictions", record.experiment, record.run, name, table)
        self.parts.append(name)
        self.digests.append(digest_of(written) or "")
        self.exact += int((wrong == 0).sum())
        self.cells += int(cells.sum())
        self.wrong_cells += int(wrong.sum())


def _sampled(batches: list[Inferred], count: int) -> dict[str, pa.Array]:
    """Columns of rows that were answered several times, NULL for others."""
    found = [batch.sampled for batch in batches if batch.sampled is not None]
    if not found:
        return {"sample": pa.nulls(count, pa.int32()), "oracle_exact": pa.nulls(count, pa.bool_())}
    return {
        "sample": pa.array(np.concatenate([batch.chosen for batch in found])),
        "oracle_exact": pa.array(np.concatenate([batch.oracle for batch in found])),
    }
