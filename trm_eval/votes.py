"""Counts the votes of an evaluation, from its predictions, and writes them as parts of the table `votes`.

Predictions are read a few thousand at a time; only the distinct candidates are kept in memory. As for predictions, a
part counts only if its evaluation's row, which is written last, refers to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from trm_data.catalog.read import read_split_catalog
from trm_data.kinds.arc.symmetry import colour_maps
from trm_data.kinds.registry import load_kind
from trm_data.loader.dataset import Dataset
from trm_data.loader.rows import Picks
from trm_data.storage.atomic import checked_files, digest_of
from trm_data.storage.root import Layout
from trm_data.symmetry.dihedral import DIHEDRAL_COUNT
from trm_eval.arc import Grid, Ranking, VoteCounter, cells_of, undo
from trm_eval.errors import ResultError
from trm_eval.predictions import PART_EXAMPLES, PredictionWriter, labelled_cells
from trm_eval.tables.writer import part_names_of, table_folder, write_table
from trm_train.runs.record import RunRecord

READ_EXAMPLES = 8_192
"""Number of predictions in one read."""


def write_votes(
    layout: Layout, record: RunRecord, dataset: Dataset, predictions: PredictionWriter
) -> dict[str, list[str]]:
    """Write the votes of an evaluation, after its predictions.

    Args:
        layout: The root.
        record: Record of the run.
        dataset: Evaluated split.
        predictions: Finished writer of its predictions.

    Returns:
        The columns of its row in `evals` that refer to the parts. Empty if there are no votes: another kind of puzzle,
        the training split, or an evaluation of some rows only, where test inputs lack votes.
    """
    kind = load_kind(dataset.manifest.kind)
    if not kind.voted or dataset.split == "train" or predictions.rows < len(dataset):
        return {}
    voters, test_inputs = _open_catalog(layout, dataset)
    counter = VoteCounter()
    for batch in _read_predictions(layout, record, predictions):
        rows = batch["row"].to_numpy()
        picks = dataset.groups.picks(rows)
        elements = voters.elements(picks)
        grids = undo(
            batch["prediction"].flatten().to_numpy().reshape(len(rows), -1),
            elements % DIHEDRAL_COUNT,
            colour_maps(elements),
        )
        counter.add(test_inputs.numbers(picks), grids, batch["q_halt_logit"].to_numpy(), rows)
    ranking = counter.ranked()
    names: list[str] = []
    for number, start in enumerate(range(0, len(ranking), PART_EXAMPLES)):
        part = f"{predictions.evaluation}-{number:05d}"
        table = _table(predictions.evaluation, part, ranking, test_inputs, start)
        names.append(write_table(layout, "votes", record.experiment, record.run, part, table))
    return {
        "vote_parts": [f"{predictions.evaluation}-{number:05d}" for number in range(len(names))],
        "vote_digests": [digest_of(name) or "" for name in names],
    }


@dataclass(frozen=True)
class TestInputs:
    """Test inputs of a split, T of them, numbered through its groups.

    Attributes:
        first: Number of each group's first test input, int64 [G].
        tasks: Task of each test input.
        indices: Position of each in its task, int32 [T].
        solutions: Solution of each; None if unknown.
    """

    first: NDArray[np.int64]
    tasks: list[str]
    indices: NDArray[np.int32]
    solutions: list[Grid | None]

    def numbers(self, picks: Picks) -> NDArray[np.int64]:
        """Return the test-input number of each row, int64 [N]."""
        return self.first[picks.groups] + picks.examples


@dataclass(frozen=True)
class Voters:
    """Symmetry of each augmentation of a split, from its catalog.

    Attributes:
        first: Start of each group's augmentations, int64 [G].
        listed: Symmetry element of each augmentation, int64 [M].
    """

    first: NDArray[np.int64]
    listed: NDArray[np.int64]

    def elements(self, picks: Picks) -> NDArray[np.int64]:
        """Return the symmetry element of each row, int64 [N]."""
        return self.listed[self.first[picks.groups] + picks.augmentations]


def _open_catalog(layout: Layout, dataset: Dataset) -> tuple[Voters, TestInputs]:
    catalog = read_split_catalog(layout.dataset(dataset.name), dataset.manifest, dataset.split)
    groups = catalog.groups
    starts = np.flatnonzero(np.diff(catalog.element_groups, prepend=-1))
    first = np.empty(len(groups), np.int64)
    first[catalog.element_groups[starts]] = starts

    counts = groups.examples_per_augmentation
    of_group = np.repeat(np.arange(len(groups)), counts)
    indices = np.arange(len(of_group)) - groups.first_examples[:-1][of_group]
    originals = dataset.groups.rows(Picks(of_group, np.zeros_like(of_group), indices))
    labels = dataset.read(originals)["labels"].astype(np.uint8)
    no_symmetry = np.zeros(len(labels), np.int64)
    grids = undo(labels, no_symmetry, colour_maps(no_symmetry))
    known = (labelled_cells(labels) > 0).tolist()
    test_inputs = TestInputs(
        first=groups.first_examples[:-1],
        tasks=[str(catalog.facts["task"][group]) for group in of_group.tolist()],
        indices=indices.astype(np.int32),
        solutions=[grid if there else None for grid, there in zip(grids, known, strict=True)],
    )
    return Voters(first, catalog.elements), test_inputs


def _read_predictions(
    layout: Layout, record: RunRecord, predictions: PredictionWriter
) -> Iterator[pa.RecordBatch]:
    """Yield the predictions with the columns needed for voting, in order."""
    folder = table_folder(layout, "predictions", record.experiment, record.run)
    names = part_names_of(predictions.parts, predictions.digests)
    for name, path in zip(names, checked_files(folder, names), strict=True):
        if path is None:
            raise ResultError(f"{folder.where(name)}: is missing; evaluate again")
        yield from pq.ParquetFile(path).iter_batches(
            READ_EXAMPLES, columns=["row", "q_halt_logit", "prediction"]
        )


def _table(evaluation: str, part: str, ranking: Ranking, test_inputs: TestInputs, start: int) -> pa.Table:
    """Return the rows of a part: candidates from `start` on."""
    chosen = slice(start, start + PART_EXAMPLES)
    numbers, grids = ranking.test_inputs[chosen], ranking.grids[chosen]
    solutions = [test_inputs.solutions[number] for number in numbers.tolist()]
    right = [
        None if solution is None else grid == solution
        for grid, solution in zip(grids, solutions, strict=True)
    ]
    return pa.table(
        {
            "evaluation": pa.array([evaluation] * len(grids)),
            "part": pa.array([part] * len(grids)),
            "task": pa.array([test_inputs.tasks[number] for number in numbers.tolist()]),
            "test_index": test_inputs.indices[numbers],
            "rank": ranking.ranks[chosen].astype(np.int32),
            "votes": ranking.votes[chosen].astype(np.int32),
            "mean_q": ranking.mean_q[chosen],
            "correct": pa.array(right, pa.bool_()),
            "first_row": ranking.first_rows[chosen],
            "rows": pa.array([grid[0] for grid in grids], pa.int32()),
            "columns": pa.array([grid[1] for grid in grids], pa.int32()),
            "grid": _grid_lists(grids),
        }
    )


def _grid_lists(grids: Sequence[Grid]) -> pa.ListArray:
    """Return the cells of each grid, row by row, as an Arrow list column."""
    ends = np.cumsum([0, *(len(grid) - 2 for grid in grids)])
    cells = [cells_of(grid).reshape(-1) for grid in grids]
    values = np.concatenate(cells) if cells else np.zeros(0, np.uint8)
    return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pa.array(values))
