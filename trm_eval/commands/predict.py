"""`trm-eval predict`: solves puzzles from the command line or a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from trm_data.command import Root, emit, ending_at_once
from trm_data.storage.root import resolve_root
from trm_eval.errors import EvalError
from trm_train.commands.common import DataOption, ScaleOption
from trm_train.experiments.setting import parse_setting

if TYPE_CHECKING:
    from trm_data.storage.root import Layout
    from trm_eval.solver import Solution, Solver


@dataclass(frozen=True, kw_only=True)
class Predict:
    """Solve one puzzle, or those of a file, with a run's network, and check whether the answers are legal.

    A puzzle is written as in a source file: digits with . or 0 for blanks (Sudoku), lines of # S G and spaces (maze),
    a task or grid as JSON (ARC). A file has any format that trm-data build reads (docs/datasets.md). In JSON output,
    puzzle and answer are tokens: 0 is PAD, 1 a blank cell of a Sudoku, 2 its digit 1 (docs/concepts.md).

    For example:

      trm-eval predict quickstart --puzzle ..2....3.45..4........6...51.......3
      trm-eval predict quickstart --file puzzles.txt --json
      trm-eval predict quickstart --row 0 --trace --out solution.gif
    """

    reference: Annotated[Positional[str], arg(metavar="RUN")]
    """A run's name or folder, or an experiment: the run that it defines (at --scale and --data, if given)."""
    puzzle: Annotated[str | None, arg(metavar="TEXT", help_behavior_hint="")] = None
    """Puzzle as text."""
    file: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """File of puzzles in any format of a build (docs/datasets.md); - is stdin."""
    columns: Annotated[str, arg(metavar="question=NAME", help_behavior_hint="")] = ""
    """Name of the column of puzzles in the file."""
    symbols: Annotated[str, arg(metavar="CHARACTERS", help_behavior_hint="")] = ""
    """Characters of the cells, as in --symbols of trm-data build."""
    dataset: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """Dataset of the puzzles, for a run on a mixture."""
    row: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """A row of the run's dataset, from 0."""
    split: Literal["train", "validation", "test"] = "test"
    """Split of --row."""
    scale: ScaleOption = None
    data: DataOption = None
    checkpoint: str = "last"
    """A step, last, or best (highest exact accuracy on the validation split)."""
    weights: Literal["ema", "raw"] = "ema"
    """Averaged or raw parameters."""
    steps: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Supervision steps (default: the maximum of training)."""
    trace: bool = False
    """Show the answer after every supervision step."""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Draw the first puzzle: .gif shows every cycle, .png or .svg the end (with --trace every step)."""
    root: Root = None
    json: bool = False
    """Print JSON for machines, one object a puzzle in a list."""

    def run(self) -> int:
        """Solve the puzzles and print the answers."""
        with ending_at_once():
            return self._answer()

    def _answer(self) -> int:
        from trm_eval.predict import ENDINGS, as_json, write_solution
        from trm_eval.solver import load
        from trm_train.runs.record import find_run

        given = [value for value in (self.puzzle, self.file, self.row) if value is not None]
        if len(given) != 1:
            raise EvalError("no puzzle (expected one of --puzzle TEXT, --file FILE and --row N)")
        if self.steps is not None and self.steps < 1:
            raise EvalError(f"--steps: got {self.steps}; expected at least 1")
        if self.out is not None and self.out.suffix.lower() not in ENDINGS:
            raise EvalError(f"--out {self.out}: expected {', '.join(ENDINGS)}")
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        layout = resolve_root(self.root)
        run = find_run(layout, self.reference, parse_setting(self.scale, self.data))
        solver = load(
            run.place,
            layout,
            checkpoint=self.checkpoint,
            weights=self.weights,
            supervision_steps=self.steps,
            symbols=self.symbols,
            dataset=self.dataset,
        )
        solutions = self._solve(layout, solver)
        if self.out is not None:
            write_solution(solutions[0], self.out, trace=self.trace)
        facts = [as_json(solution, trace=self.trace) for solution in solutions]
        emit(facts, partial(self._print, solutions), as_json=self.json)
        return 0

    def _print(self, solutions: Sequence[Solution]) -> None:
        for solution in solutions:
            _print(solution, trace=self.trace)
        if len(solutions) > 1:
            legal = [solution.legal for solution in solutions]
            if None not in legal:
                print(f"{sum(map(bool, legal)):,} of {len(legal):,} answers are legal")
        if self.out is not None:
            print(f"drawn: {self.out}")

    def _solve(self, layout: Layout, solver: Solver) -> list[Solution]:
        from trm_eval.solver import row_of

        if self.puzzle is not None:
            return [solver.solve(self.puzzle)]
        if self.file is not None:
            return solver.solve_all(solver.read(self.file, columns=self.columns))
        assert self.row is not None
        tokens, identifier = row_of(layout, solver.dataset, self.split, self.row)
        return [solver.solve(tokens, identifier=identifier)]


def _print(solution: Solution, *, trace: bool) -> None:
    """Print a puzzle with its answer, its solution if known, and the verdict."""
    from trm_data.show.render import print_drawings
    from trm_eval.predict import steps_of, verdict

    drawings = [("given", solution.draw_puzzle()), ("answer", solution.draw())]
    if (known := solution.draw_solution()) is not None:
        drawings.append(("solution", known))
    print_drawings(drawings)
    steps = len(solution.answers)
    halts = (
        "would not halt within"
        if solution.halt_step is None
        else f"would halt after step {solution.halt_step} of"
    )
    print(
        f"{verdict(solution)}; halting probability {solution.halt_probability:.3f}, "
        f"{halts} {steps} step{'s' if steps > 1 else ''}"
    )
    for titled in steps_of(solution) if trace else []:
        print()
        print_drawings([titled])
    print()
