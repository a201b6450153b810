"""`trm-eval show`: draws puzzles with their predictions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from trm_data.command import Root, emit
from trm_data.storage.root import resolve_root
from trm_eval.errors import EvalError, ResultError
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
        from trm_eval.show import answered_puzzles, evaluation_of
        from trm_eval.tables.query import query_results
        from trm_train.runs.record import find_run, read_record

        count = self.count if self.count is not None else 3 if self.index is None else 1
        if count < 1:
            raise EvalError(f"--count {count}: expected at least 1")
        if self.index is not None and self.which != "any":
            raise EvalError(f"--index and --which {self.which}: use only one of them")
        layout = resolve_root(self.root)
        folder = find_run(layout, self.reference, parse_setting(self.scale, self.data))
        if self.evaluation is None and self.dataset is None:
            read_record(folder).component(None)
        run = folder.name
        evaluation = evaluation_of(layout, run, self.evaluation, self.dataset)
        found = answered_puzzles(layout, evaluation, count=count, which=self.which, index=self.index)
        if not found:
            such = "" if self.which == "any" else f" that are {self.which}"
            raise ResultError(f"{run}: has no puzzles{such} in evaluation {evaluation}")
        if self.out is not None:
            write_predicted(found, Path(self.out))
            emit({"wrote": self.out}, f"wrote {self.out}", as_json=self.json)
            return 0

        def said() -> None:
            for puzzle in found:
                print_predicted(puzzle)
            ((known,),) = query_results(layout, "SELECT count(*) FROM evals WHERE run = ?", [run]).rows
            if known > 1:
                print(f"of evaluation {evaluation}; {run} has {known - 1} more (--evaluation ID)")

        emit([puzzle.as_text() for puzzle in found], said, as_json=self.json)
        return 0
