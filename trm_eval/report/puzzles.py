"""Drawn puzzles of a report: solved, failed, and one solved step by step."""

from __future__ import annotations

from collections.abc import Sequence

from trm_data.errors import DataError
from trm_data.storage.root import Layout
from trm_eval.errors import EvalError
from trm_eval.predict import steps_of
from trm_eval.report.ask import filled, without_root
from trm_eval.report.blocks import Animation, Block, Drawings, Heading, Query, Text
from trm_eval.report.group import Group, Member
from trm_eval.show import ANSWERED_SQL, Answered, Which, answered_puzzles
from trm_train.errors import TrainError

SHOWN: dict[Which, int] = {"right": 2, "wrong": 2}
"""Number of puzzles shown for each run."""


def puzzle_blocks(layout: Layout, groups: Sequence[Group]) -> list[Block]:
    """Return puzzles of the best run on each set of test puzzles; if they cannot be drawn, the reason.

    A missing dataset or checkpoint is only reported, because the numbers of the report do not need it.
    """
    best: dict[str, Member] = {}
    for member in (member for group in groups for member in group.members):
        so_far = best.get(member.split_digest)
        if so_far is None or member.exact_accuracy > so_far.exact_accuracy:
            best[member.split_digest] = member
    blocks: list[Block] = [Heading("Puzzles")]
    for number, member in enumerate(best.values(), start=1):
        alike = {
            other.run
            for group in groups
            for other in group.members
            if (other.split_digest, other.exact_accuracy) == (member.split_digest, member.exact_accuracy)
        }
        place = "the best run" if len(alike) == 1 else f"one of {len(alike)} runs that tie as the best"
        blocks += _of_run(layout, member, f"puzzles-{number}" if len(best) > 1 else "puzzles", place)
    return blocks


def _of_run(layout: Layout, member: Member, name: str, place: str) -> list[Block]:
    said = Text(
        f"The first test puzzles that `{member.run}` ({place} of this report) solves, and the first that it does not. "
        "In an answer, given cells are bold and answered ones blue; wrong cells have a frame and a corner, and cells "
        "that a step changed a blue corner."
    )
    try:
        found: dict[Which, list[Answered]] = {
            which: answered_puzzles(layout, member.evaluation, count=count, which=which)
            for which, count in SHOWN.items()
        }
    except (DataError, EvalError) as error:
        return [Text(f"No puzzles of `{member.run}` are drawn: {without_root(layout, error)}")]
    blocks: list[Block] = [said]
    for which, answered in found.items():
        blocks += [_drawn(puzzle, f"{name}-{which}-{puzzle.row}") for puzzle in answered]
        if not answered:
            blocks.append(Text("It solves none." if which == "right" else "It fails at none."))
        sql = filled(ANSWERED_SQL[which], [member.evaluation, SHOWN[which]])
        blocks.append(Query(f"the puzzles that are {which}", sql))
    return [*blocks, *_animated(layout, member, name)]


def _drawn(puzzle: Answered, name: str) -> Drawings:
    rating = "" if puzzle.rating is None else f", rating {puzzle.rating:g}"
    halts = "never halts" if puzzle.halt_step is None else f"would halt after step {puzzle.halt_step}"
    verdict = "solved" if puzzle.exact else f"{puzzle.wrong_cells} cells wrong"
    return Drawings(
        name,
        f"{puzzle.split} {puzzle.row}{rating}: {verdict}, {halts}",
        [("given", puzzle.puzzle), ("answer", puzzle.prediction), ("solution", puzzle.solution)],
    )


def _animated(layout: Layout, member: Member, name: str) -> list[Block]:
    """Return the solved puzzle that took a run the most steps, else its first puzzle, answered again step by step."""
    from trm_eval.solver import load

    for which in ("longest", "any"):
        chosen = answered_puzzles(layout, member.evaluation, count=1, which=which)
        if chosen:
            break
    else:
        return []
    (puzzle,) = chosen
    try:
        solver = load(
            member.run,
            layout,
            checkpoint=str(member.total_steps),
            supervision_steps=member.supervision_steps,
            dataset=puzzle.dataset,
        )
        solution = solver.solve(puzzle.tokens, identifier=puzzle.identifier)
    except (DataError, EvalError, TrainError) as error:
        return [Text(f"No solution is shown step by step: {without_root(layout, error)}")]
    answers = solution.answers[:, -1]
    frames = [
        (title, puzzle.draw(tokens, answers[step - 1] if step else None))
        for step, ((title, _), tokens) in enumerate(zip(steps_of(solution), answers, strict=True))
    ]
    which = "the solved puzzle that took the most steps" if puzzle.exact else "which it does not solve"
    return [
        Animation(
            f"{name}-steps",
            f"{puzzle.split} {puzzle.row}, {which}, answered by `{member.run}` step by step, with how sure it is that "
            "it may halt",
            [("given", puzzle.puzzle), *frames],
        )
    ]
