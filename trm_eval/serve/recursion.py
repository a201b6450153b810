"""The recursion of one answer, from stored traces or computed again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trm_data.encode import PAD
from trm_data.storage.root import Layout
from trm_eval.report.ask import Asked, ask
from trm_eval.report.canvas import COLOURS, draw_svg
from trm_eval.show import Answered

if TYPE_CHECKING:
    from trm_eval.solver import Solution, Solver

MOST_TRACED, LEAST_TRACED = 1000, 100
"""Row limit for offering a command that writes traces, and the minimum number of rows that it writes."""

TRACE_SQL = """\
SELECT supervision_step, cycle, q_halt_logit, wrong_cells, answer
FROM traces
WHERE evaluation = ? AND row = ?
ORDER BY supervision_step, cycle"""

EVALUATION_SQL = """\
SELECT e.run, e.step, e.weights, e.supervision_steps, CASE WHEN contains(r.dataset, '+') THEN e.dataset END AS dataset
FROM evals AS e
LEFT JOIN runs AS r USING (run)
WHERE e.evaluation = ?"""


@dataclass(frozen=True)
class Moment:
    """Answer of the network after one cycle.

    Attributes:
        step: Supervision step, from 1.
        cycle: Cycle of that step, from 1.
        halt_probability: Probability of halting (0 to 1).
        wrong_cells: Number of wrong labelled cells.
        answer: Tokens, uint8 [S].
    """

    step: int
    cycle: int
    halt_probability: float
    wrong_cells: int
    answer: NDArray[np.uint8]


def traced(layout: Layout, evaluation: str, row: int, problems: list[str]) -> tuple[Asked, list[Moment]]:
    """Return every moment of a row from the evaluation's traces; empty without traces."""
    asked = ask(
        layout, "traces of this puzzle", TRACE_SQL, [evaluation, row], problems, evaluations=[evaluation]
    )
    return asked, [
        Moment(
            found["supervision_step"],
            found["cycle"],
            _probability(found["q_halt_logit"]),
            found["wrong_cells"],
            np.array(found["answer"], np.uint8),
        )
        for found in asked.rows
    ]


def way_to_traces(evaluation: Mapping[str, Any], row: int) -> str | None:
    """Return the command that writes traces of a row; None if it cannot, or would write far too many.

    Args:
        evaluation: A row of `evaluations_of`.
        row: Row number in its split.
    """
    if not evaluation["as_published"] or row >= MOST_TRACED:
        return None
    words = ["trm-eval", "run", evaluation["run"], "--checkpoint", evaluation["step"]]
    words += ["--weights", evaluation["weights"], "--split", evaluation["split"]]
    words += ["--steps", evaluation["supervision_steps"], "--traces", max(row + 1, LEAST_TRACED)]
    if evaluation["of_mixture"] or not evaluation["of_own_dataset"]:
        words += ["--dataset", evaluation["dataset"]]
    return shlex.join(map(str, words))


def why_not_again(evaluation: Mapping[str, Any], puzzle: Answered) -> str | None:
    """Return the reason why a puzzle cannot be answered again as in an evaluation; None if it can."""
    if evaluation["adapted"]:
        return "This evaluation learned before it answered, and what it learned was not kept."
    if puzzle.identifier and not evaluation["of_own_dataset"]:
        return "The run has no embedding of this puzzle: it is of another dataset than the run learned."
    return None


def solver_of(layout: Layout, evaluation: str, problems: list[str]) -> Solver:
    """Load the network of an evaluation, with its weights and number of steps."""
    from trm_eval.solver import load  # imports jax

    asked = ask(layout, "which network", EVALUATION_SQL, [evaluation], problems, evaluations=[evaluation])
    (row,) = asked.rows
    return load(
        row["run"],
        layout,
        checkpoint=str(row["step"]),
        weights=row["weights"],
        supervision_steps=row["supervision_steps"],
        dataset=row["dataset"],
    )


def answer_again(solver: Solver, puzzle: Answered) -> list[Moment]:
    """Answer a puzzle again with all steps and without noise; return every moment."""
    return moments_of(solver.solve(puzzle.tokens, identifier=puzzle.identifier), puzzle.label)


def moments_of(solution: Solution, label: NDArray[np.uint8]) -> list[Moment]:
    """Return every moment of a solution; `label` determines the wrong cells."""
    return [
        Moment(
            step + 1,
            cycle + 1,
            _probability(solution.halt_logits[step, cycle]),
            int(((tokens != label) & (label != PAD)).sum()),
            tokens,
        )
        for step, answers in enumerate(solution.answers)
        for cycle, tokens in enumerate(answers)
    ]


def _probability(logit: float) -> float:
    return float(1 / (1 + np.exp(-np.float64(logit))))


def draw_course(moments: Sequence[Moment], at: Moment) -> bytes:
    """Draw wrong cells and halting probability after every cycle as SVG; a line marks one moment."""
    cycles = max(moment.cycle for moment in moments)
    places = [moment.step + moment.cycle / cycles - 1 for moment in moments]

    def paint(axis: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        axis.plot(places, [moment.wrong_cells for moment in moments], color=COLOURS[0], label="wrong cells")
        axis.set_ylabel("wrong cells")
        axis.set_ylim(bottom=0)
        axis.yaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_xlabel("supervision step")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.axvline(at.step + at.cycle / cycles - 1, color="#6b7280", linewidth=1, linestyle=":")
        axis.grid()
        axis.plot([], [], color=COLOURS[1], linestyle="--", label="halting probability (right)")
        right = axis.twinx()
        right.plot(places, [m.halt_probability for m in moments], color=COLOURS[1], linestyle="--")
        right.set_ylim(-0.02, 1.02)
        right.spines["right"].set_visible(True)

    return draw_svg(paint, height=2.2)
