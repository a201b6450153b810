"""`trm-eval show`: draws puzzles with their predictions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from trm_data.command import Root, emit
from trm_data.storage.root import resolve_root
from trm_eval.errors import EvalError
from trm_train.commands.common import DataOption, ScaleOption
from trm_train.experiments.setting import parse_setting


@dataclass(frozen=True, kw_only=True)
class Show:
    """Draw puzzles with a run's predictions.

    For example:

      trm-eval show quickstart --count 2 --which wrong
      trm-eval show quickstart --evaluation 3cebcd76 --index 41 --out puzzle.svg
    """

    reference: Annotated[Positional[str], arg(metavar="RUN")]
    """A run's name or folder, or an experiment: the run that it defines (at --scale and --data, if given)."""
    scale: ScaleOption = None
    data: DataOption = None
    evaluation: Annotated[str | None, arg(metavar="ID", help_behavior_hint="")] = None
    """Evaluation id or its prefix (`trm-eval sql @evals`); default: the newest."""
    dataset: Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")] = None
    """Use the newest evaluation on this dataset; required for a run on a mixture."""
    which: Literal["any", "right", "wrong", "guessing", "longest"] = "any"
    """guessing: solved puzzles with a rating above 0; longest: solved after the most steps."""
    index: Annotated[int | None, arg(metavar="ROW", help_behavior_hint="")] = None
    """First row to show, from 0."""
    count: Annotated[int | None, arg(metavar="N", help_behavior_hint="")] = None
    """Number of puzzles (default: 3; with --index, 1)."""
    out: Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """Write a picture (.png or .svg)."""
    root: Root = None
    json: bool = False
    """Print JSON for machines."""

    def run(self) -> int:
        """Draw the puzzles."""
        from trm_eval.report.evaluation import print_predicted, write_predicted
        from trm_eval.show import evaluation_of, find_answered, other_evaluations
        from trm_train.runs.record import find_run, read_record

        count = self.count if self.count is not None else 3 if self.index is None else 1
        if count < 1:
            raise EvalError(f"--count {count}: expected at least 1")
        if self.index is not None and self.which != "any":
            raise EvalError(f"--index and --which {self.which}: use only one of them")
        layout = resolve_root(self.root)
        folder = find_run(layout, self.reference, parse_setting(self.scale, self.data))
        run, evaluation = folder.name, self.evaluation
        if evaluation is None and self.dataset is None:
            read_record(folder).component(None)
        if self.dataset is not None:
            evaluation = evaluation_of(layout, run, evaluation, self.dataset)
        found = find_answered(
            layout, run, count=count, which=self.which, evaluation=evaluation, index=self.index
        )
        if self.out is not None:
            write_predicted(found, Path(self.out))
            emit({"wrote": self.out}, f"wrote {self.out}", as_json=self.json)
            return 0

        def said() -> None:
            for puzzle in found:
                print_predicted(puzzle)
            if others := other_evaluations(layout, run):
                chosen = evaluation_of(layout, run, evaluation)
                print(f"of evaluation {chosen}; {run} has {others} more (--evaluation ID)")

        emit([puzzle.as_text() for puzzle in found], said, as_json=self.json)
        return 0
