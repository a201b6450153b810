"""Counts the votes of an ARC evaluation, from its predictions, and writes them as parts of the table `votes`.

Predicted rows of tokens are read a few thousand at a time, with the symmetry of each row's augmentation. The candidates
of a test input are its distinct predicted grids, with the augmentation undone; only they are kept in memory. They are
ranked by number of votes, then by the mean of sigmoid(halting logit) over their votes; of equal candidates, the first
seen leads. pass@K and the two attempts of a submission follow from the ranking. `tests/parity/check_arc.py` compares it
with the published evaluator.

As for predictions, a part counts only if its evaluation's row, which is written last, refers to it.

Source: the published evaluator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import expit

from trm_data.catalog.read import read_split_catalog
from trm_data.kinds.arc.encode import ARC_SIDE, ARC_VOCABULARY, FIRST_COLOUR
from trm_data.kinds.arc.symmetry import colour_maps
from trm_data.kinds.registry import load_kind
from trm_data.loader.dataset import Dataset
from trm_data.loader.rows import Picks
from trm_data.storage.atomic import checked_files, digest_of
from trm_data.storage.root import Layout
from trm_data.symmetry.dihedral import DIHEDRAL_COUNT, Dihedral, source_cells
from trm_eval.errors import ResultError
from trm_eval.predictions import PART_EXAMPLES, PredictionWriter, labelled_cells
from trm_eval.tables.writer import part_names_of, table_folder, write_table
from trm_train.runs.record import RunRecord

ATTEMPTS = 2
"""Number of answers to each test input in a submission."""

Grid = bytes
"""A grid as a hashable value, one byte each: number of rows, number of columns, then the colours of its cells."""

NO_GRID: Grid = bytes((0, 0))
"""Grid of a row whose first cell is not a colour."""


def grid_of(cells: NDArray[np.uint8]) -> Grid:
    """Encode a grid of colours [R, C] as bytes."""
    return bytes(cells.shape) + cells.astype(np.uint8).tobytes()


def cells_of(grid: Grid) -> NDArray[np.uint8]:
    """Return the colours of a grid, uint8 [R, C]; the inverse of `grid_of`."""
    return np.frombuffer(grid, np.uint8, offset=2).reshape(grid[0], grid[1])


def crop_sizes(tokens: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return rows and columns of the largest rectangle of colours at the top left of each row [N, 900], int64 [N, 2].

    Of equally large rectangles, take the one with the fewest rows; 0 x 0 if the first cell is not a colour.
    """
    canvas = tokens.reshape(-1, ARC_SIDE, ARC_SIDE)
    colours = (canvas >= FIRST_COLOUR) & (canvas < ARC_VOCABULARY)
    leading = np.where(colours.all(axis=2), ARC_SIDE, colours.argmin(axis=2))
    columns = np.minimum.accumulate(leading, axis=1)
    areas = columns * np.arange(1, ARC_SIDE + 1)
    rows = areas.argmax(axis=1)
    sizes = np.stack([rows + 1, np.take_along_axis(columns, rows[:, None], axis=1)[:, 0]], axis=1)
    sizes[sizes[:, 1] == 0] = 0
    return sizes


def undo(tokens: NDArray[np.uint8], dihedrals: NDArray[np.integer], colours: NDArray[np.uint8]) -> list[Grid]:
    """Return the grid of each row, cropped, with the symmetry of its augmentation undone.

    Args:
        tokens: Predictions, uint8 [N, 900].
        dihedrals: Ids of the dihedrals, [N].
        colours: New colour of each old one, uint8 [N, 10]; colours were permuted before the dihedral.
    """
    sizes = crop_sizes(tokens)
    old_colours = np.argsort(colours, axis=1).astype(np.uint8)
    shapes = (dihedrals.astype(np.int64) * (ARC_SIDE + 1) + sizes[:, 0]) * (ARC_SIDE + 1) + sizes[:, 1]
    order = np.argsort(shapes, kind="stable")
    same = np.split(order, np.flatnonzero(np.diff(shapes[order])) + 1) if len(order) else []
    grids: list[Grid] = [NO_GRID] * len(tokens)
    for found in same:
        rows, columns = sizes[found[0]].tolist()
        if not rows:
            continue
        inverse = Dihedral(int(dihedrals[found[0]])).inverse()
        cells = source_cells(inverse.id, rows, columns)
        on_canvas = cells // columns * ARC_SIDE + cells % columns
        images = tokens[found][:, on_canvas] - FIRST_COLOUR
        values = np.empty((len(found), 2 + rows * columns), np.uint8)
        values[:, :2] = (columns, rows) if inverse.turns else (rows, columns)
        values[:, 2:] = np.take_along_axis(old_colours[found], images.astype(np.int64), axis=1)
        for position, value in zip(found.tolist(), values, strict=True):
            grids[position] = value.tobytes()
    return grids


@dataclass
class VoteCounter:
    """Counts votes in order, in batches of any size; the batch size does not affect any bit of the result.

    It stores a grid, two sums and a row number for each candidate, and no predictions.
    """

    _candidates: dict[tuple[int, Grid], int] = field(default_factory=dict[tuple[int, Grid], int])
    _votes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    _q_sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    _first_rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(
        self,
        test_inputs: NDArray[np.int64],
        grids: Sequence[Grid],
        q_halt_logits: NDArray[np.floating],
        rows: NDArray[np.int64],
    ) -> None:
        """Count predictions for numbered test inputs, all [N]; `rows` are the row numbers of the predictions."""
        known = self._candidates
        ids = np.array(
            [
                known.setdefault((number, grid), len(known))
                for number, grid in zip(test_inputs.tolist(), grids, strict=True)
            ],
            np.int64,
        )
        new = len(known) - len(self._votes)
        self._votes = np.concatenate([self._votes, np.zeros(new, np.int64)])
        self._q_sums = np.concatenate([self._q_sums, np.zeros(new)])
        self._first_rows = np.concatenate([self._first_rows, np.full(new, np.iinfo(np.int64).max)])
        np.add.at(self._votes, ids, 1)
        np.add.at(self._q_sums, ids, expit(q_halt_logits.astype(np.float64)))  # in order: same rounding
        np.minimum.at(self._first_rows, ids, rows)

    def ranked(self) -> pl.DataFrame:
        """Return all candidates, grouped by test input, the best first.

        Columns: `test_input`, `grid`, `votes` (number of predictions that are this grid), `mean_q` (mean of
        sigmoid(halting logit) over them), `first_row` (row that voted for it first), and `rank` from 1.
        """
        candidates = pl.DataFrame(
            {
                "test_input": np.array([number for number, _ in self._candidates], np.int64),
                "grid": pl.Series([grid for _, grid in self._candidates], dtype=pl.Binary),
                "votes": self._votes,
                "mean_q": self._q_sums / np.maximum(self._votes, 1),
                "first_row": self._first_rows,
            }
        )
        sure = pl.col("mean_q").fill_nan(None)
        return candidates.sort(  # stable: of equal ones the first seen leads
            "test_input", "votes", sure, descending=[False, True, True], nulls_last=True, maintain_order=True
        ).with_columns(rank=pl.int_range(1, pl.len() + 1).over("test_input"))


def attempts(grids: Sequence[Grid]) -> dict[str, list[list[int]]]:
    """Return a submission's attempts at one test input, from its candidates in order of rank.

    A single candidate is used for both. Without candidates both are empty, so that the test input keeps its place.
    """
    best = [*grids[:ATTEMPTS]] or [NO_GRID]
    best += best[:1] * (ATTEMPTS - len(best))
    return {f"attempt_{place}": cells_of(grid).tolist() for place, grid in enumerate(best, start=1)}


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
    first_elements, listed, test_inputs = _open_catalog(layout, dataset)
    counter = VoteCounter()
    for batch in _read_predictions(layout, record, predictions):
        rows = batch["row"].to_numpy()
        picks = dataset.groups.picks(rows)
        elements = listed[first_elements[picks.groups] + picks.augmentations]
        grids = undo(
            batch["prediction"].flatten().to_numpy().reshape(len(rows), -1),
            elements % DIHEDRAL_COUNT,
            colour_maps(elements),
        )
        counter.add(
            test_inputs.first[picks.groups] + picks.examples, grids, batch["q_halt_logit"].to_numpy(), rows
        )
    ranking = counter.ranked()
    digests: dict[str, str] = {}
    for number, start in enumerate(range(0, len(ranking), PART_EXAMPLES)):
        part = f"{predictions.evaluation}-{number:05d}"
        table = _table(predictions.evaluation, part, ranking.slice(start, PART_EXAMPLES), test_inputs)
        name = write_table(layout, "votes", record.experiment, record.run, part, table)
        digests[part] = digest_of(name) or ""
    return {"vote_parts": list(digests), "vote_digests": list(digests.values())}


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


def _open_catalog(
    layout: Layout, dataset: Dataset
) -> tuple[NDArray[np.int64], NDArray[np.int64], TestInputs]:
    """Return where the augmentations of each group begin [G], the symmetry element of each, and the test inputs."""
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
    return first, catalog.elements, test_inputs


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


def _table(evaluation: str, part: str, ranking: pl.DataFrame, test_inputs: TestInputs) -> pa.Table:
    """Return the rows of a part."""
    numbers, grids = ranking["test_input"].to_numpy(), ranking["grid"].to_list()
    solutions = [test_inputs.solutions[number] for number in numbers.tolist()]
    right = [each and each == grid for grid, each in zip(grids, solutions, strict=True)]
    return pa.table(
        {
            "evaluation": pa.array([evaluation] * len(grids)),
            "part": pa.array([part] * len(grids)),
            "task": pa.array([test_inputs.tasks[number] for number in numbers.tolist()]),
            "test_index": test_inputs.indices[numbers],
            "rank": ranking["rank"].to_numpy().astype(np.int32),
            "votes": ranking["votes"].to_numpy().astype(np.int32),
            "mean_q": ranking["mean_q"].to_numpy(),
            "correct": pa.array(right, pa.bool_()),
            "first_row": ranking["first_row"].to_numpy(),
            "rows": pa.array([grid[0] for grid in grids], pa.int32()),
            "columns": pa.array([grid[1] for grid in grids], pa.int32()),
            "grid": pa.array([cells_of(grid).reshape(-1) for grid in grids], pa.list_(pa.uint8())),
        }
    )
