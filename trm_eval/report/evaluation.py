"""Console output of an evaluation; every number comes from the tables, by SQL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trm_data.show.drawing import Drawing
from trm_data.show.picture import write_picture
from trm_data.show.render import print_drawings, print_result
from trm_data.storage.root import Layout
from trm_eval.show import Answered
from trm_eval.tables.query import query_evaluation, query_results

if TYPE_CHECKING:
    from trm_eval.evaluation.flow import EvalResult

SECTIONS = (
    ("accuracy_by_rating", "by rating (guesses a solver needs)"),
    ("wrong_cells", "by number of wrong cells"),
    ("halting", "by the supervision step at which the network would have halted"),
)

HEADLINE = """
SELECT count, exact_count, exact_accuracy, optimal_share, cell_accuracy, spent_steps, seconds, compile_seconds, how,
       (SELECT count(*) FROM predictions AS p WHERE p.evaluation = e.evaluation) AS rows,
       (SELECT CASE WHEN count(rating) > 0 THEN count_if(rating > 0) END
        FROM predicted_puzzles AS p WHERE p.evaluation = e.evaluation AND p.rating_source = 'solver') AS guessing
FROM evals AS e WHERE evaluation = ?
"""

NOTIONS = {"given_kept_count": "what is given is kept", "valid_count": "legal answers"}
"""Descriptions of counts that a kind of puzzle may define."""

RATED = "SELECT 1 FROM rated_predictions WHERE evaluation = ? AND rating IS NOT NULL LIMIT 1"
"""Query for a rated row of an evaluation; empty for kinds of puzzles without ratings."""
PASSED = "SELECT k, pass_at_k, tasks FROM pass_at_k WHERE evaluation = ? ORDER BY k"


def print_headline(layout: Layout, result: EvalResult) -> None:
    """Print the result of one evaluation in a few lines."""
    row = result.row
    found = query_results(layout, HEADLINE, [row["evaluation"]])
    said = dict(zip(found.columns, found.rows[0], strict=True))
    count, rows, seconds = said["count"], said["rows"], said["seconds"]
    print(
        f"{result.run} at step {row['step']:,}, {row['weights']} weights, {row['split']} split of {row['dataset']}"
        f"{'' if said['how'] == 'max_steps' else ', ' + said['how']}"
    )
    optimal = said["optimal_share"]
    optimal = "" if optimal is None else f"as good as the label {100 * optimal:.2f}%, "
    steps = f"{said['spent_steps'] / rows:.3g} supervision steps a puzzle"
    if count:
        print(
            f"  exact accuracy {100 * said['exact_accuracy']:.2f}% ({said['exact_count']:,} of {count:,}), {optimal}"
            f"cells {100 * said['cell_accuracy']:.2f}%, {steps}, {rows / seconds:,.0f} puzzles/s "
            f"({said['compile_seconds']:.1f} s to compile aside)"
        )
    else:
        print(f"  no row has a solution to compare with, {steps}, {seconds:,.0f} s")
    known = [
        f"{text} {100 * row[name] / count:.2f}%"
        for name, text in NOTIONS.items()
        if count and row.get(name) is not None
    ]
    if known:
        print(f"  {', '.join(known)}")
    if said["guessing"] is not None:
        print(f"  {said['guessing']:,} of the {count:,} puzzles need guessing (rating above 0)")
    passed = query_results(layout, PASSED, [row["evaluation"]]).rows if row.get("vote_parts") else []
    if passed:
        shares = ", ".join(f"pass@{k} {100 * share:.2f}%" for k, share, _ in passed)
        print(f"  {shares} of {passed[0][2]:,} tasks, by votes over augmentations")


def print_scaling(layout: Layout, result: EvalResult) -> None:
    """Print accuracy by depth and breadth, and how many answers further steps keep and lose."""
    for query, title in (
        ("scaling", "by steps and samples"),
        ("retention", "right, ever right, and lost again"),
    ):
        print(f"\n{title}: trm-eval sql @{query}")
        print_result(query_evaluation(layout, query, result.row["evaluation"]), "table")


def print_report(layout: Layout, result: EvalResult) -> None:
    """Print the headline and the tables of one evaluation."""
    print_headline(layout, result)
    for query, title in SECTIONS:
        if (
            query == "accuracy_by_rating"
            and not query_results(layout, RATED, [result.row["evaluation"]]).rows
        ):
            continue
        print(f"\n{title}: trm-eval sql @{query}")
        print_result(query_evaluation(layout, query, result.row["evaluation"]), "table")


def print_predicted(puzzle: Answered) -> None:
    """Print a puzzle, its prediction, and the solution if it differs."""
    print(puzzle.says)
    solution = [("solution", puzzle.solution)] if puzzle.exact is False else []
    print_drawings([("given", puzzle.puzzle), ("answer", puzzle.prediction), *solution])
    print()


def write_predicted(puzzles: Sequence[Answered], path: Path) -> None:
    """Write a picture with a row for each puzzle: given, prediction and solution."""
    drawings: list[tuple[str, Drawing]] = []
    for puzzle in puzzles:
        halt = f", halt {puzzle.halt_step}" if puzzle.halt_step else ""
        drawings += [
            (f"given: {puzzle.split} {puzzle.row}", puzzle.puzzle),
            (f"answer: {puzzle.verdict}{halt}", puzzle.prediction),
            ("solution", puzzle.solution),
        ]
    write_picture(drawings, path, across=3)
