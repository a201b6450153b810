"""Makes an ARC submission: two attempts at every test input, from the votes of one or several evaluations."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trm_data.catalog.query import QueryResult
from trm_data.storage.root import Layout
from trm_eval.errors import ResultError
from trm_eval.tables.query import query_results
from trm_eval.votes import ATTEMPTS, Grid, attempts

EVALUATIONS = """
SELECT evaluation, step, dataset, split, split_digest, row_limit, vote_parts IS NOT NULL AS voted
FROM evals WHERE run = ? AND weights = ? AND (split = ? OR (? IS NULL AND split IN ('test', 'validation')))
AND CASE WHEN ? IS NULL THEN how = 'max_steps' ELSE dataset = ? END
ORDER BY split = 'test' DESC, row_limit = 0 DESC, step DESC, created_at DESC
"""
OF_IDS = """
SELECT evaluation, step, dataset, split, split_digest, row_limit, vote_parts IS NOT NULL AS voted
FROM all_evals WHERE run = ? AND list_contains(?, evaluation)
"""
CANDIDATES = """
SELECT task, test_index, rows, columns, grid, correct FROM {} WHERE rank <= ? ORDER BY task, test_index, rank
"""
ONE = "(SELECT * FROM all_votes WHERE evaluation = ?)"
SEVERAL = "pooled_votes(?)"
NO_ANSWER = [[0]]
"""Placeholder for a missing grid, because a submission allows no empty grid."""


@dataclass(frozen=True)
class Submission:
    """A submission and its sources.

    Attributes:
        tasks: Content of the file: task to attempts, in the order of its test inputs.
        evaluations: Ids of the evaluations whose votes count.
        steps: Steps of their checkpoints.
        dataset: Evaluated dataset.
        split: Evaluated split.
        unscored: Number of tasks without solutions.
        passed: Share of test inputs with a correct attempt, mean over the tasks with solutions; None without solutions.
    """

    tasks: dict[str, list[dict[str, list[list[int]]]]]
    evaluations: list[str]
    steps: list[int]
    dataset: str
    split: str
    unscored: int
    passed: float | None


def make_submission(
    layout: Layout,
    run: str,
    *,
    steps: Sequence[int] = (),
    split: str | None = None,
    weights: str = "ema",
    dataset: str | None = None,
    evaluations: Sequence[str] = (),
) -> Submission:
    """Return the submission of a run, from its evaluations.

    Args:
        layout: The root.
        run: Name of the run.
        steps: Checkpoints whose votes are counted together; empty: the last evaluated checkpoint.
        split: Name of the split; None for test, or validation if test was not evaluated.
        weights: `ema` or `raw`.
        dataset: A dataset that the run did not learn from, evaluated in any mode. None for the run's own dataset, where
            every row was given all steps.
        evaluations: Ids of the evaluations whose votes are counted together, instead of the options above.
    """
    if evaluations:
        chosen = _of_ids(query_results(layout, OF_IDS, [run, list(evaluations)]), run, evaluations)
    else:
        found = query_results(layout, EVALUATIONS, [run, weights, split, split, dataset, dataset])
        options = {"--dataset": dataset, "--split": split, "--weights": None if weights == "ema" else weights}
        asked = [word for name, value in options.items() if value is not None for word in (name, value)]
        chosen = _choose(found, run, weights, steps, asked)
    evaluations = [str(row["evaluation"]) for row in chosen]
    if len(evaluations) == 1:
        found = query_results(layout, CANDIDATES.format(ONE), [evaluations[0], ATTEMPTS])
    else:
        found = query_results(layout, CANDIDATES.format(SEVERAL), [evaluations, ATTEMPTS])
    candidates: dict[str, dict[int, list[Grid]]] = {}
    rights: dict[str, dict[int, list[bool | None]]] = {}
    for task, index, rows, columns, grid, correct in found.rows:
        candidates.setdefault(task, {}).setdefault(index, []).append(bytes((rows, columns, *grid)))
        rights.setdefault(task, {}).setdefault(index, []).append(correct)
    scored = [
        [any(right) for right in of_task.values()]
        for of_task in rights.values()
        if not any(None in right for right in of_task.values())
    ]
    return Submission(
        tasks={
            task: [_with_cells(attempts(of_task.get(index, []))) for index in range(max(of_task) + 1)]
            for task, of_task in candidates.items()
        },
        evaluations=list(evaluations),
        steps=[row["step"] for row in chosen],
        dataset=chosen[0]["dataset"],
        split=chosen[0]["split"],
        unscored=len(rights) - len(scored),
        passed=sum(sum(right) / len(right) for right in scored) / len(scored) if scored else None,
    )


def _with_cells(answer: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
    """Return attempts in the competition's form, in which no grid is empty."""
    return {attempt: grid or NO_ANSWER for attempt, grid in answer.items()}


def _of_ids(result: QueryResult, run: str, evaluations: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of `evals` with these ids, in their order; raise ResultError if they cannot be combined."""
    rows = {row[0]: dict(zip(result.columns, row, strict=True)) for row in result.rows}
    for evaluation in evaluations:
        if evaluation not in rows:
            raise ResultError(f"{run}: has no evaluation {evaluation} (trm-eval sql @evals shows them)")
        if not rows[evaluation]["voted"]:
            raise ResultError(
                f"{run}: evaluation {evaluation} has no votes: of ARC, all rows of a split have them"
            )
        if rows[evaluation]["split_digest"] != rows[evaluations[0]]["split_digest"]:
            raise ResultError(
                f"{run}: evaluations {evaluations[0]} and {evaluation} are of other puzzles; votes are counted "
                "together on the same ones only"
            )
    return [rows[evaluation] for evaluation in evaluations]


def _of(asked: Sequence[str]) -> str:
    """Return the dataset of `--dataset` for a message; empty without the option."""
    return f" of {asked[1]}" if asked[:1] == ["--dataset"] else ""


def _choose(
    result: QueryResult, run: str, weights: str, steps: Sequence[int], asked: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the rows of `evals` whose votes count, in the order of `steps`, with the split and rows of the first.

    Args:
        result: Evaluations that match the request.
        run: Name of the run.
        weights: `ema` or `raw`.
        steps: Checkpoints.
        asked: Options of `trm-eval run` for such an evaluation.
    """
    rows = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
    command = ["trm-eval", "run", run, *asked]
    if not rows:
        raise ResultError(
            f"{run}: has no evaluation of held-out rows{_of(asked)} with {weights} weights: {shlex.join(command)}"
        )
    whole = [row for row in rows if row["voted"]]
    if not whole:
        limited = [row["row_limit"] for row in rows if row["row_limit"]]
        if len(limited) == len(rows):
            raise ResultError(
                f"{run}: was evaluated on its first {max(limited)} rows only, in which test inputs lack votes: "
                f"{shlex.join(command)} without --limit"
            )
        raise ResultError(
            f"{run}: its evaluations have no votes, for the puzzles of {rows[0]['dataset']} are not those of ARC; "
            "evaluations that are older than votes must be made again"
        )
    by_step: dict[int, dict[str, Any]] = {}
    same = [whole[0][name] for name in ("split", "split_digest")]
    for row in whole:
        if [row["split"], row["split_digest"]] == same:
            by_step.setdefault(row["step"], row)
    split = [] if "--split" in asked else ["--split", str(same[0])]
    for step in steps:
        if step not in by_step:
            there = ", ".join(map(str, sorted(by_step)))
            raise ResultError(
                f"{run}: step {step} was not evaluated on all rows of {same[0]} with {weights} weights (steps {there} "
                f"were): {shlex.join([*command, '--checkpoint', str(step), *split])}"
            )
    return [by_step[step] for step in steps or [whole[0]["step"]]]
