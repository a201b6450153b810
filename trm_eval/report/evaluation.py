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
SELECT count, exact_count, 100.0 * exact_accuracy, 100.0 * optimal_share, 100.0 * cell_accuracy, spent_steps, seconds,
       compile_seconds, how,
       (SELECT count(*) FROM predictions AS p WHERE p.evaluation = e.evaluation),
       (SELECT CASE WHEN count(rating) > 0 THEN count_if(rating > 0) END
        FROM predicted_puzzles AS p WHERE p.evaluation = e.evaluation AND p.rating_source = 'solver')
FROM evals AS e WHERE evaluation = ?
"""

NOTIONS = {
    "given_kept": "what is given is kept",
    "valid": "legal answers",
    "optimal": "as good as the label",
}
"""Description of each property of answers that a kind of puzzle may define."""

RATED = "SELECT 1 FROM rated_predictions WHERE evaluation = ? AND rating IS NOT NULL LIMIT 1"
"""Query for a rated row of an evaluation; empty for kinds of puzzles without ratings."""
PASSED = "SELECT k, pass_at_k, tasks FROM pass_at_k WHERE evaluation = ? ORDER BY k"


def print_headline(layout: Layout, result: EvalResult) -> None:
    """Print the result of one evaluation in a few lines."""
    row = result.row
    headline = query_results(layout, HEADLINE, [row["evaluation"]]).rows[0]
    (
        count,
        exact,
        exact_percent,
        optimal_percent,
        cells_percent,
        spent,
        seconds,
        compiling,
        how,
        rows,
        guessing,
    ) = headline
    print(
        f"{result.run} at step {row['step']:,}, {row['weights']} weights, {row['split']} split of {row['dataset']}"
        f"{'' if how == 'max_steps' else f', {how}'}"
    )
    optimal = "" if optimal_percent is None else f"as good as the label {optimal_percent:.2f}%, "
    if count:
        print(
            f"  exact accuracy {exact_percent:.2f}% ({exact:,} of {count:,}), {optimal}cells {cells_percent:.2f}%, "
            f"{spent / rows:.3g} supervision steps a puzzle, {rows / seconds:,.0f} puzzles/s "
            f"({compiling:.1f} s to compile aside)"
        )
    else:
        print(
            f"  no row has a solution to compare with, {spent / rows:.3g} supervision steps a puzzle, {seconds:,.0f} s"
        )
    shares = {text: row.get(f"{notion}_count") for notion, text in NOTIONS.items() if notion != "optimal"}
    known = [
        f"{text} {100 * found / count:.2f}%" for text, found in shares.items() if count and found is not None
    ]
    if known:
        print(f"  {', '.join(known)}")
    if guessing is not None:
        print(f"  {guessing:,} of the {count:,} puzzles need guessing (rating above 0)")
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
    print_drawings(puzzle.titled())
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
