"""`trm-eval run`: evaluate a checkpoint."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from trm_data.command import Root
from trm_data.storage.root import resolve_root
from trm_eval.errors import EvalError
from trm_train.commands.common import DataOption, ScaleOption
from trm_train.experiments.setting import parse_setting


@dataclass(frozen=True, kw_only=True)
class Run:
    """Evaluate a checkpoint of a run: every row of a split once, with a fixed number of supervision steps.

    Writes the tables runs, train_metrics, evals and predictions; evaluating again replaces the result.

    For example:

      trm-eval run quickstart
      trm-eval run exp01a --scale tiny
      trm-eval run quickstart-7b5f7e87-s0 --checkpoint best --split validation --weights raw
    """

    run: Annotated[Positional[str], arg(metavar="RUN")]
    """A run's name or folder, or an experiment that has one run (at --scale and --data, if they are given)."""
    scale: ScaleOption = None
    data: DataOption = None
    checkpoint: str = "last"
    """A step, last, or best (highest exact accuracy on the validation split)."""
    split: Annotated[Literal["train", "validation", "test"] | None, arg(help_behavior_hint="")] = None
    """Split of the run's dataset (default: test, or validation where there is no test)."""
    limit: int = 0
    """Rows at most, from the first; 0 is all."""
    weights: Literal["ema", "raw"] = "ema"
    """Averaged or raw parameters."""
    steps: Annotated[int | None, arg(help_behavior_hint="")] = None
    """Supervision steps of each row (default: as many as training gives at most)."""
    root: Root = None
    json: bool = False
    """Print JSON for machines."""

    def command(self) -> int:
        """Evaluate and report."""
        from trm_data.show.progress import terminal_progress
        from trm_eval.evaluate import evaluate_run
        from trm_eval.identity import EvalRequest
        from trm_eval.report.evaluation import print_report
        from trm_train.run.record import find_run

        if self.limit < 0 or (self.steps is not None and self.steps < 1):
            raise EvalError(
                f"--limit at least 0, got {self.limit}; --steps at least 1, got {self.steps or 'none'}"
            )
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        layout = resolve_root(self.root)
        run = find_run(layout, self.run, parse_setting(self.scale, self.data))
        request = EvalRequest(
            checkpoint=self.checkpoint,
            split=self.split,
            limit=self.limit,
            weights=self.weights,
            supervision_steps=self.steps,
        )
        with terminal_progress(quiet=self.json) as progress:
            result = evaluate_run(layout, run, request, progress)
        if self.json:
            print(json.dumps({"run": result.run, **result.row}, indent=1, default=str))
        else:
            print_report(layout, result)
        return 0
