"""`trm-eval show`: puzzles with their predictions."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from trm_data.command import Root
from trm_data.storage.root import resolve_root
from trm_eval.errors import EvalError
from trm_train.commands.common import DataOption, ScaleOption
from trm_train.experiments.setting import parse_setting


@dataclass(frozen=True, kw_only=True)
class Show:
    """Draw puzzles with the predictions of a run's newest evaluation.

    For example:

      trm-eval show quickstart --count 2 --which wrong
    """

    run: Annotated[Positional[str], arg(metavar="RUN")]
    """A run's name or folder, or an experiment that has one run (at --scale and --data, if they are given)."""
    scale: ScaleOption = None
    data: DataOption = None
    count: int = 3
    which: Literal["any", "right", "wrong", "guessing", "longest"] = "any"
    """guessing: those that need guessing (rating above 0) and are right; longest: right after most steps."""
    root: Root = None
    json: bool = False
    """Print JSON for machines."""

    def command(self) -> int:
        """Draw them."""
        from trm_eval.report.evaluation import print_predicted
        from trm_eval.show import show_predictions
        from trm_train.run.record import find_run

        if self.count < 1:
            raise EvalError(f"--count {self.count}: at least 1")
        layout = resolve_root(self.root)
        run = find_run(layout, self.run, parse_setting(self.scale, self.data))
        found = show_predictions(layout, run.name, count=self.count, which=self.which)
        if self.json:
            print(json.dumps([asdict(puzzle) for puzzle in found], indent=1))
        else:
            for puzzle in found:
                print_predicted(puzzle)
        return 0
