"""Comparison of two runs or evaluations on the same puzzles."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from trm_data.storage.root import Layout
from trm_eval.errors import EvalError, StatisticsError
from trm_eval.statistics import AcrossSeeds, Paired, across_seeds
from trm_eval.tables.query import query_results
from trm_train.config.run import leaves
from trm_train.experiments.setting import Setting
from trm_train.runs.record import find_run

ID = re.compile(r"[0-9a-f]{16}")

EVALUATIONS_SQL = """
SELECT e.evaluation, e.run, e.step, e.weights, e.dataset, e.split, e.split_digest, e.row_limit, e.subset_seed, e.count,
       e.exact_accuracy, e.supervision_steps, e.how, r.config, r.content_digest, r.seed
FROM all_evals AS e LEFT JOIN runs AS r ON r.run = e.run
WHERE {} ORDER BY e.split = 'test' DESC, e.how = 'max_steps' DESC, e.row_limit = 0 DESC, e.created_at DESC
"""
FLIPS_SQL = """
SELECT a.row, a.exact AS exact_a, b.exact AS exact_b, a.wrong_cells AS wrong_cells_a, b.wrong_cells AS wrong_cells_b,
       coalesce(a.rating, q.rating) AS rating, q.clues, q.path_length, a.group_index
FROM (SELECT * FROM all_predictions WHERE evaluation = ?) AS a
JOIN (SELECT * FROM all_predictions WHERE evaluation = ?) AS b USING (row)
JOIN all_evals AS e ON e.evaluation = a.evaluation
LEFT JOIN catalog.splits AS s ON s.dataset = e.dataset AND s.split = e.split AND s.digest = e.split_digest
LEFT JOIN catalog.puzzles AS q
    ON q.dataset = s.dataset AND q.split = s.split AND q.group_index = a.group_index
WHERE a.exact IS NOT NULL AND b.exact IS NOT NULL
ORDER BY rating DESC NULLS LAST, a.row
"""
RATING_LEVELS = (0.0, 1.0, 10.0, 50.0)
RATING_NAMES = ("rating 0", "rating 0 to 1", "rating 1 to 10", "rating 10 to 50", "rating above 50")
"""Upper ends and names of the strata by rating (guesses that a solver needs)."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One side of a comparison; the fields are columns of `all_evals` and of its run in `runs`."""

    evaluation: str
    run: str
    step: int
    weights: str
    dataset: str
    split: str
    split_digest: str
    row_limit: int
    subset_seed: int | None
    count: int
    exact_accuracy: float
    supervision_steps: int
    how: str
    config: str | None
    content_digest: str | None
    seed: int | None

    @property
    def title(self) -> str:
        """Description of the evaluation in one line."""
        how = "" if self.how == "max_steps" else f", {self.how}"
        return (
            f"{self.run} at step {self.step:,}, {self.weights} weights, {self.supervision_steps} steps{how}"
        )


@dataclass(frozen=True)
class Difference:
    """Result of a comparison.

    Attributes:
        a: First evaluation.
        b: Second evaluation, whose advantage is counted.
        both: Result on all puzzles that both answered.
        strata: Results on subsets: name of the subset, and result.
        flips: Puzzles that only one side solves, the hardest first, with the columns of `FLIPS_SQL`.
        settings: Differences of the configurations: name, first value, second value.
        seeds: If both are experiments, a pair of evaluations for each common seed, in order; otherwise empty.
    """

    a: Evaluation
    b: Evaluation
    both: Paired
    strata: list[tuple[str, Paired]]
    flips: pl.DataFrame
    settings: list[tuple[str, Any, Any]]
    seeds: list[tuple[Evaluation, Evaluation]]

    @property
    def across_seeds(self) -> AcrossSeeds | None:
        """Mean difference over the seeds with Student's interval; None with fewer than two seeds or without spread."""
        try:
            return across_seeds([b.exact_accuracy - a.exact_accuracy for a, b in self.seeds])
        except StatisticsError:
            return None


def compare(layout: Layout, a: str, b: str, setting: Setting | None = None) -> Difference:
    """Compare two runs by their newest tests of the same rows, or two evaluations.

    Args:
        layout: The root.
        a: Name of a run, an experiment (the run that it defines), or an evaluation id.
        b: As `a`.
        setting: Scale and data of experiments.
    """
    ours, theirs = _evaluations(layout, a, setting), _evaluations(layout, b, setting)
    if ours[0].run == theirs[0].run and not (ID.fullmatch(a) and ID.fullmatch(b)):
        raise EvalError(
            f"{a} and {b} are one run, {ours[0].run}; to compare two evaluations of a run, use their ids (trm-eval "
            f"sql @evals)"
        )
    pair = _same_rows(ours, theirs)
    if pair is None:
        raise EvalError(
            f"{a} and {b} were not evaluated on the same rows: {_rows_of(ours)}; {_rows_of(theirs)}. "
            "trm-eval run with the same --dataset, --split and --limit"
        )
    first, second = pair
    found = query_results(layout, FLIPS_SQL, [first.evaluation, second.evaluation])
    unknown = {"rating": pl.Float64, "clues": pl.Int64, "path_length": pl.Int64}  # of some kinds all are NULL
    puzzles = pl.DataFrame(found.rows, found.columns, schema_overrides=unknown, orient="row")
    if missing := [line for line in found.problems if first.evaluation in line or second.evaluation in line]:
        raise EvalError("; ".join(missing))
    if puzzles.is_empty():
        raise EvalError(f"{a} and {b}: no common row has a solution")
    return Difference(
        a=first,
        b=second,
        both=_paired(puzzles),
        strata=_strata(puzzles),
        flips=puzzles.filter(pl.col("exact_a") != pl.col("exact_b")),
        settings=_settings(first, second),
        seeds=_by_seed(layout, a, b, first, second),
    )


def _by_seed(
    layout: Layout, a: str, b: str, first: Evaluation, second: Evaluation
) -> list[tuple[Evaluation, Evaluation]]:
    """Return evaluations of the same rows for each seed that two experiments share; empty if runs are named."""
    if {a, b} & {first.run, second.run} or ID.fullmatch(a) or ID.fullmatch(b):
        return []
    ours, theirs = _runs_by_seed(layout, first.run), _runs_by_seed(layout, second.run)
    pairs = [
        _same_rows(*(_asked(layout, "e.run = ?", side[seed]) for side in (ours, theirs)))
        for seed in sorted(ours.keys() & theirs.keys())
    ]
    return [pair for pair in pairs if pair is not None]


def _runs_by_seed(layout: Layout, run: str) -> dict[int, str]:
    """Return the runs with the same configuration, by seed."""
    same = (
        "SELECT r.seed, r.run FROM runs AS r JOIN runs AS given ON r.identity = given.identity "
        "AND r.experiment = given.experiment WHERE given.run = ?"
    )
    return dict(query_results(layout, same, [run]).rows)


def _evaluations(layout: Layout, reference: str, setting: Setting | None) -> list[Evaluation]:
    """Return the evaluation with an id, or the evaluations of a run, the preferred one first."""
    if ID.fullmatch(reference):
        condition, value = "e.evaluation = ?", reference
    else:
        condition, value = "e.run = ?", find_run(layout, reference, setting).name
    evaluations = _asked(layout, condition, value)
    if not evaluations:
        hint = (
            "trm-eval sql @evals lists them"
            if value == reference and ID.fullmatch(value)
            else f"trm-eval run {value}"
        )
        raise EvalError(f"{value}: was not evaluated yet: {hint}")
    return evaluations


def _asked(layout: Layout, condition: str, value: str) -> list[Evaluation]:
    found = query_results(layout, EVALUATIONS_SQL.format(condition), [value])
    return [Evaluation(**dict(zip(found.columns, row, strict=True))) for row in found.rows]


def _same_rows(
    ours: Sequence[Evaluation], theirs: Sequence[Evaluation]
) -> tuple[Evaluation, Evaluation] | None:
    """Return the best-matching pair of evaluations of the same rows: same weights and mode if possible."""

    def rows(one: Evaluation) -> tuple[Any, ...]:
        return one.split_digest, one.row_limit, one.subset_seed

    def unlike(pair: tuple[Evaluation, Evaluation]) -> tuple[bool, ...]:
        a, b = pair
        return a.weights != b.weights, a.supervision_steps != b.supervision_steps, a.how != b.how

    pairs = [(a, b) for a in ours for b in theirs if rows(a) == rows(b) and a.evaluation != b.evaluation]
    return min(pairs, key=unlike, default=None)


def _rows_of(evaluations: Sequence[Evaluation]) -> str:
    one = evaluations[0]
    asked = {
        f"{e.split} of {e.dataset}" + (f" ({e.row_limit} rows)" if e.row_limit else "") for e in evaluations
    }
    return f"{one.run} on {', '.join(sorted(asked))}"


def _paired(puzzles: pl.DataFrame) -> Paired:
    a, b = puzzles["exact_a"], puzzles["exact_b"]
    return Paired(puzzles.height, int((a & ~b).sum()), int((b & ~a).sum()))


def _strata(puzzles: pl.DataFrame) -> list[tuple[str, Paired]]:
    """Return the results by rating, by clues in fives, and by path length in tens, where these are known."""
    rating = pl.sum_horizontal(pl.col("rating") > level for level in RATING_LEVELS)
    strata: tuple[tuple[str, pl.Expr, Callable[[int], str]], ...] = (
        ("rating", rating, lambda at: RATING_NAMES[at]),
        ("clues", pl.col("clues") // 5 * 5, lambda at: f"{at} to {at + 4} clues"),
        ("path_length", pl.col("path_length") // 10 * 10, lambda at: f"path of {at} to {at + 9} steps"),
    )
    found: list[tuple[str, Paired]] = []
    for column, start, name in strata:
        known = puzzles.drop_nulls(column).with_columns(at=start).sort("at", maintain_order=True)
        found += [(name(some["at"][0]), _paired(some)) for some in known.partition_by("at")]
    return found


def _settings(a: Evaluation, b: Evaluation) -> list[tuple[str, Any, Any]]:
    """Return the differences of evaluations, data and configurations, by dotted name."""
    ours, theirs = (_flat(one) for one in (a, b))
    names = [*ours, *(name for name in theirs if name not in ours)]
    return [(name, ours.get(name), theirs.get(name)) for name in names if ours.get(name) != theirs.get(name)]


def _flat(one: Evaluation) -> dict[str, Any]:
    flat: dict[str, Any] = {
        "evaluation.step": one.step,
        "evaluation.weights": one.weights,
        "evaluation.supervision_steps": one.supervision_steps,
        "evaluation.how": one.how,
        "data.content_digest": None if one.content_digest is None else one.content_digest[:12],
    }
    return flat | dict(leaves(json.loads(one.config) if one.config else {}))
