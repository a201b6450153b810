"""Makes an ARC submission: two attempts at every test input, from the votes of one or several evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trm_data.storage.root import Layout
from trm_eval.errors import ResultError
from trm_eval.tables.query import query_results
from trm_eval.votes import ATTEMPTS, Grid, attempts

COLUMNS = "evaluation, step, dataset, split, split_digest"
NEWEST = f"""
SELECT {COLUMNS} FROM evals
WHERE run = ? AND vote_parts IS NOT NULL AND split <> 'train'
    AND CASE WHEN ? IS NULL THEN how = 'max_steps' ELSE dataset = ? END
ORDER BY weights, split = 'test' DESC, step DESC, created_at DESC LIMIT 1
"""
OF_IDS = f"""
SELECT {COLUMNS} FROM all_evals WHERE run = ? AND vote_parts IS NOT NULL AND list_contains(?, evaluation)
ORDER BY list_position(?, evaluation)
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
    dataset: str | None = None,
    evaluations: Sequence[str] = (),
) -> Submission:
    """Return the submission of a run, from its evaluations.

    Args:
        layout: The root.
        run: Name of the run.
        dataset: A dataset that the run did not learn from, evaluated in any mode. None for the run's own dataset, where
            every row was given all steps.
        evaluations: Ids of the evaluations whose votes are counted together. Empty: the newest one of the last
            checkpoint with averaged weights, on the test split if it was evaluated.

    Raises:
        ResultError: There is no such evaluation with votes, or the evaluations are of different puzzles.
    """
    ids = list(evaluations)
    found = (
        query_results(layout, OF_IDS, [run, ids, ids])
        if ids
        else query_results(layout, NEWEST, [run, dataset, dataset])
    )
    chosen = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    if missing := sorted(set(ids) - {row["evaluation"] for row in chosen}):
        raise ResultError(
            f"{run}: has no evaluation {', '.join(missing)} with votes (trm-eval sql @evals lists all)"
        )
    if not chosen:
        option = "" if dataset is None else f" --dataset {dataset}"
        raise ResultError(
            f"{run}: no evaluation has votes; expected one of all held-out rows of ARC. Run trm-eval run {run}{option} "
            "without --limit"
        )
    if len({row["split_digest"] for row in chosen}) > 1:
        raise ResultError(
            f"{run}: evaluations {', '.join(ids)} are of different puzzles. Name those of one split"
        )
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
            task: [
                {name: grid or NO_ANSWER for name, grid in attempts(of_task.get(index, [])).items()}
                for index in range(max(of_task) + 1)
            ]
            for task, of_task in candidates.items()
        },
        evaluations=list(evaluations),
        steps=[row["step"] for row in chosen],
        dataset=chosen[0]["dataset"],
        split=chosen[0]["split"],
        unscored=len(rights) - len(scored),
        passed=sum(sum(right) / len(right) for right in scored) / len(scored) if scored else None,
    )
