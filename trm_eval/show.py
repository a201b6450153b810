"""Puzzles with what a run predicted for them, drawn: for `trm-eval show`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trm_data.kinds.base import load_kind
from trm_data.loader.dataset import open_dataset
from trm_data.storage.root import Layout
from trm_eval.errors import ResultError
from trm_eval.tables.query import query_results

Which = Literal["any", "right", "wrong", "guessing"]
CONDITIONS: dict[Which, str] = {
    "any": "true",
    "right": "exact",
    "wrong": "NOT exact",
    "guessing": "exact AND rating > 0",
}


@dataclass(frozen=True)
class Predicted:
    """One puzzle with its prediction, as text."""

    row: int
    split: str
    rating: float | None
    exact: bool
    wrong_cells: int
    halt_step: int | None
    puzzle: str
    prediction: str
    solution: str


def show_predictions(layout: Layout, run: str, *, count: int, which: Which) -> list[Predicted]:
    """The first puzzles of a run's newest evaluation.

    Raises:
        ResultError: The run was not evaluated yet, or has no such puzzles.
    """
    newest = query_results(
        layout,
        "SELECT evaluation, dataset, split, split_digest FROM evals WHERE run = ? ORDER BY created_at DESC LIMIT 1",
        [run],
    )
    if not newest.rows:
        raise ResultError(f"{run}: was not evaluated yet: trm-eval run {run}")
    evaluation, dataset_name, split, split_digest = newest.rows[0]
    dataset = open_dataset(dataset_name, layout, split)
    if dataset.split_digest != split_digest:
        raise ResultError(
            f"dataset {dataset_name} has other {split} rows than {run} was evaluated on; rebuild it, or evaluate again"
        )
    found = query_results(
        layout,
        "SELECT row, rating, exact, wrong_cells, halt_step, prediction FROM predicted_puzzles "
        f"WHERE evaluation = ? AND {CONDITIONS[which]} ORDER BY row LIMIT ?",
        [evaluation, count],
    )
    if not found.rows:
        raise ResultError(f"{run}: has no puzzles that are {which} in evaluation {evaluation}")
    kind = load_kind(dataset.manifest.kind)
    spec = dataset.manifest.spec
    rows = dataset.read(np.array([row[0] for row in found.rows], np.int64))

    def drawn(tokens: NDArray[np.uint8]) -> str:
        return kind.draw(tokens, spec).text()

    return [
        Predicted(
            row=row,
            split=split,
            rating=rating,
            exact=exact,
            wrong_cells=wrong,
            halt_step=halt_step,
            puzzle=drawn(rows["inputs"][position].astype(np.uint8)),
            prediction=drawn(np.array(prediction, np.uint8)),
            solution=drawn(rows["labels"][position].astype(np.uint8)),
        )
        for position, (row, rating, exact, wrong, halt_step, prediction) in enumerate(found.rows)
    ]
