"""Evaluation from Python."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from trm_data.errors import arguments_named
from trm_data.show.progress import terminal_progress
from trm_data.storage.root import Root, resolve_root
from trm_eval.identity import EvalRequest
from trm_train.api import TrainedRun
from trm_train.runs.record import find_run

if TYPE_CHECKING:
    from trm_eval.evaluation.flow import EvalResult


@arguments_named()
def evaluate(
    run: str | TrainedRun,
    *,
    quiet: bool = False,
    root: Root | None = None,
    **request: Any,
) -> EvalResult:
    """Evaluate a checkpoint of a run on every row of a split and write the result tables, as `trm-eval run` does.

    Args:
        run: Result of `trm_train.train`, or a run's name, its folder or an experiment.
        quiet: Show no progress.
        root: Root folder, `gs://bucket/prefix`, a layout or a store (default: that of the run, else `$TRM_ROOT`, else
            `./trm`).
        request: Fields of `trm_eval.identity.EvalRequest`: checkpoint (a step, last or best), dataset, split, limit,
            weights, supervision_steps, mode, ...

    Returns:
        Result of the evaluation; its `row` is the row in the table `evals`, and printing it shows the exact accuracy.

    Raises:
        EvalError: The request does not fit the run or its dataset.
        ConfigError: The run does not exist.
        CheckpointError: The checkpoint does not exist.
    """
    from trm_eval.evaluation.flow import evaluate_run

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    name = run.name if isinstance(run, TrainedRun) else run
    layout = run.layout if isinstance(run, TrainedRun) and root is None else resolve_root(root)
    asked = EvalRequest(**request)
    asked.check()
    with terminal_progress(quiet=quiet) as progress:
        return evaluate_run(layout, find_run(layout, name), asked, progress)
