"""Puzzles with a run's predictions, drawn: for `trm-eval show` and for reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trm_data.encode import PAD
from trm_data.kinds.registry import load_kind
from trm_data.loader.dataset import open_dataset
from trm_data.show.drawing import Drawing
from trm_data.storage.root import Layout
from trm_eval.errors import ResultError
from trm_eval.tables.query import query_results

Which = Literal["any", "right", "wrong", "guessing", "longest"]
CONDITIONS: dict[Which, str] = {
    "any": "true",
    "right": "exact",
    "wrong": "NOT exact",
    "guessing": "exact AND rating > 0",
    "longest": "exact",
}
ANSWERED: tuple[str, ...] = ("row", "rating", "exact", "wrong_cells", "halt_step", "prediction")
"""Columns of `predicted_puzzles`."""
ANSWERED_SQL: dict[Which, str] = {
    which: f"""\
SELECT {", ".join(ANSWERED)}
FROM predicted_puzzles
WHERE evaluation = ? AND {condition}
ORDER BY {"halt_step DESC NULLS LAST, rating DESC NULLS LAST, " if which == "longest" else ""}row
LIMIT ?"""
    for which, condition in CONDITIONS.items()
}
ROWS_SQL = f"""\
SELECT {", ".join(ANSWERED)}
FROM predicted_puzzles
WHERE evaluation = ? AND row >= ?
ORDER BY row
LIMIT ?"""


@dataclass(frozen=True)
class Answered:
    """A puzzle with its prediction, as drawings.

    Attributes:
        row: Row number in its split.
        dataset: Name of the dataset.
        split: Split of the dataset.
        rating: Guesses that a solver needs; None if the catalog has no rating.
        exact: Whether all cells are correct; None without a solution to compare with.
        wrong_cells: Number of wrong labelled cells.
        halt_step: Supervision step after which the network would have halted; None if never.
        puzzle: Drawing of the puzzle.
        prediction: Drawing of the prediction, with its answered and wrong cells.
        solution: Drawing of the solution.
    """

    row: int
    dataset: str
    split: str
    rating: float | None
    exact: bool | None
    wrong_cells: int
    halt_step: int | None
    puzzle: Drawing
    prediction: Drawing
    solution: Drawing

    @property
    def verdict(self) -> str:
        """Result in two words."""
        if self.exact is None:
            return "not scored"
        return "solved" if self.exact else f"{self.wrong_cells} cell{'s' * (self.wrong_cells != 1)} wrong"

    @property
    def says(self) -> str:
        """Row, rating, result, and the step after which the network would halt, in a line."""
        rating = "" if self.rating is None else f"rating {self.rating:.2f}, "
        halts = "never halts" if self.halt_step is None else f"would halt after step {self.halt_step}"
        return f"{self.split} {self.row}: {rating}{self.verdict}, {halts}"

    def as_text(self) -> dict[str, Any]:
        """Return the puzzle and its prediction as plain data, with the grids as text."""
        facts = {name: getattr(self, name) for name in ("row", "split", *ANSWERED[1:-1])}
        drawings = {name: getattr(self, name).text() for name in ("puzzle", "prediction", "solution")}
        return facts | drawings


def evaluation_of(layout: Layout, run: str, evaluation: str | None, dataset: str | None = None) -> str:
    """Return the newest evaluation of a run, or the one with this id prefix; optionally on one dataset."""
    sql = """\
SELECT evaluation FROM evals WHERE run = ? AND (? IS NULL OR dataset = ?) AND starts_with(evaluation, ?)
ORDER BY created_at DESC"""
    found = query_results(layout, sql, [run, dataset, dataset, evaluation or ""]).rows
    if evaluation is None and not found:
        option = "" if dataset is None else f" --dataset {dataset}"
        raise ResultError(f"{run}: was not evaluated yet: trm-eval run {run}{option}")
    if evaluation is not None and len(found) != 1:
        where = "" if dataset is None else f" on {dataset}"
        several = (
            f"{len(found)} of {run}'s evaluations begin so"
            if found
            else f"{run} has no such evaluation{where}"
        )
        raise ResultError(f"--evaluation {evaluation}: {several}; trm-eval sql @evals shows them")
    return found[0][0]


def answered_puzzles(
    layout: Layout, evaluation: str, *, count: int = 1, which: Which = "any", index: int | None = None
) -> list[Answered]:
    """Return puzzles of an evaluation.

    Args:
        layout: The root.
        evaluation: Id of the evaluation.
        count: Maximum number of puzzles.
        which: Kind of puzzles to select, the first ones; for `longest`, those with the most steps.
        index: Take puzzles of any kind from this row on; None selects by `which`.
    """
    sql, values = (ANSWERED_SQL[which], [count]) if index is None else (ROWS_SQL, [index, count])
    rows_of = "SELECT run, dataset, split, split_digest FROM evals WHERE evaluation = ?"
    known = query_results(layout, rows_of, [evaluation], evaluations=[evaluation])
    if not known.rows:
        raise ResultError(f"no evaluation {evaluation}: trm-eval sql @evals lists them")
    run, dataset_name, split, split_digest = known.rows[0]
    dataset = open_dataset(dataset_name, layout, split)
    if dataset.split_digest != split_digest:
        raise ResultError(
            f"dataset {dataset_name} has other {split} rows than {run} was evaluated on; rebuild it, or evaluate again"
        )
    found = query_results(layout, sql, [evaluation, *values], evaluations=[evaluation])
    if missing := [line for line in found.problems if evaluation in line]:
        raise ResultError("; ".join(missing))
    facts = [dict(zip(ANSWERED, row, strict=True)) for row in found.rows]
    if index is not None and (not facts or facts[0]["row"] != index):
        bounds = "SELECT count(*), min(row), max(row) FROM predictions WHERE evaluation = ?"
        ((count, first, last),) = query_results(layout, bounds, [evaluation]).rows
        raise ResultError(
            f"row {index}: not among the {count:,} rows, {first} to {last}, of evaluation {evaluation} of {run}"
        )
    if not facts:
        return []
    kind, spec = load_kind(dataset.manifest.kind), dataset.manifest.spec
    grid = dataset.manifest.grid_rows, dataset.manifest.grid_columns
    rows = dataset.read(np.array([fact["row"] for fact in facts], np.int64))

    def answered(position: int, fact: dict[str, Any]) -> Answered:
        puzzle, label = (rows[name][position].astype(np.uint8) for name in ("inputs", "labels"))
        prediction = np.array(fact.pop("prediction"), np.uint8)
        wrong = (prediction != label) & (label != PAD)
        return Answered(
            **fact,
            dataset=dataset_name,
            split=split,
            puzzle=kind.draw(puzzle, spec),
            prediction=kind.draw(prediction, spec).compare(grid, prediction, puzzle, wrong=wrong),
            solution=kind.draw(label, spec),
        )

    return [answered(position, fact) for position, fact in enumerate(facts)]
