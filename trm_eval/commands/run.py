"""`trm-eval run`: evaluate a checkpoint."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from trm_data.command import Root
from trm_data.storage.root import resolve_root
from trm_eval.errors import EvalError
from trm_train.commands.common import DataOption, ScaleOption
from trm_train.experiments.setting import parse_setting


@dataclass(frozen=True, kw_only=True)
class Run:
    """Evaluate checkpoints of runs: every row of a split once, with a fixed number of supervision steps.

    Writes the tables runs, train_metrics, evals and predictions, and votes of ARC; evaluating again replaces the
    result. The accuracy after every supervision step is in the view depth, pass@K in pass_at_k.

    For example:

      trm-eval run quickstart
      trm-eval run exp01a --scale tiny
      trm-eval run quickstart-7b5f7e87-s0 --checkpoint best --split validation --weights raw
      trm-eval run quickstart --steps 1,2,4,8,16,32
      trm-eval run 'exp01*' --scale tiny --checkpoint all --split validation
    """

    runs: Annotated[Positional[tuple[str, ...]], arg(metavar="RUN [RUN ...]")]
    """Names or folders of runs, experiments that have one run (at --scale and --data, if they are given), or globs."""
    scale: ScaleOption = None
    data: DataOption = None
    checkpoint: str = "last"
    """A step, last, all, or best (highest exact accuracy on the validation split)."""
    split: Annotated[Literal["train", "validation", "test"] | None, arg(help_behavior_hint="")] = None
    """Split of the run's dataset (default: test, or validation where there is no test)."""
    limit: int = 0
    """Rows at most, from the first; 0 is all."""
    weights: Literal["ema", "raw"] = "ema"
    """Averaged or raw parameters."""
    steps: Annotated[str | None, arg(metavar="N[,N...]", help_behavior_hint="")] = None
    """Supervision steps of each row (default: as many as training gives at most); several are one pass of the most."""
    root: Root = None
    json: bool = False
    """Print JSON for machines."""

    def command(self) -> int:
        """Evaluate and report."""
        from trm_data.show.progress import terminal_progress
        from trm_eval.evaluate import checkpoints_of, evaluate_run
        from trm_eval.identity import EvalRequest
        from trm_eval.report.evaluation import print_depths, print_headline, print_report
        from trm_train.run.find import find_runs

        if self.limit < 0:
            raise EvalError(f"--limit: at least 0, got {self.limit}")
        if not self.runs:
            raise EvalError("name a run: trm-eval run RUN (trm-train status lists them)")
        steps = _steps(self.steps)
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        layout = resolve_root(self.root)
        found = find_runs(layout, self.runs, parse_setting(self.scale, self.data))
        wanted = [(run, checkpoint) for run in found for checkpoint in checkpoints_of(run, self.checkpoint)]
        rows: list[dict[str, Any]] = []
        for run, checkpoint in wanted:
            request = EvalRequest(
                checkpoint=checkpoint,
                split=self.split,
                limit=self.limit,
                weights=self.weights,
                supervision_steps=max(steps, default=None),
            )
            with terminal_progress(quiet=self.json) as progress:
                result = evaluate_run(layout, run, request, progress)
            rows.append({"run": result.run, **result.row})
            if not self.json and len(wanted) == 1:
                print_report(layout, result)
            elif not self.json:
                print_headline(layout, result)
            if not self.json and len(steps) > 1:
                print_depths(result, steps)
        if self.json:
            print(json.dumps(rows[0] if len(rows) == 1 else rows, indent=1, default=str))
        return 0


def _steps(text: str | None) -> list[int]:
    """Numbers of supervision steps, as a user types them; none of None."""
    try:
        steps = [] if text is None else sorted({int(part) for part in text.split(",")})
    except ValueError:
        steps = [0]
    if steps and steps[0] < 1:
        raise EvalError(f"--steps: whole numbers of at least 1 between commas, got {text!r}")
    return steps
