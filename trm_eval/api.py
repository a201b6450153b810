"""Evaluation from Python: `trm_eval.evaluate` and `trm_eval.plot`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import polars as pl

from trm_data.show.progress import terminal_progress
from trm_data.storage.root import Root
from trm_eval.frames import named, read_train_metrics
from trm_eval.identity import EvalRequest
from trm_train.api import TrainedRun
from trm_train.runs.record import find_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from trm_eval.evaluation.flow import EvalResult


def evaluate(
    run: str | TrainedRun,
    *,
    quiet: bool = False,
    root: Root | None = None,
    **request: Any,
) -> EvalResult:
    """Evaluate a checkpoint of a run on every row of a split, and write the result tables, as `trm-eval run` does.

    Args:
        run: What `trm_train.train` returned, or a run's name, its folder or an experiment.
        quiet: Show no progress.
        root: Folder of everything, `gs://bucket/prefix`, a layout or a store; else that of the run, else `$TRM_ROOT`,
            else `./trm`.
        request: Fields of `trm_eval.identity.EvalRequest`: checkpoint (a step, last or best), dataset, split, limit,
            weights, supervision_steps, mode, ...

    Returns:
        The evaluation; its `row` is the row in the table `evals`, and printing it shows the exact accuracy.

    Raises:
        EvalError: The request does not fit the run or its dataset.
        ConfigError: There is no such run.
        CheckpointError: There is no such checkpoint.
    """
    from trm_eval.evaluation.flow import evaluate_run

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    name, layout = named(run, root)
    asked = EvalRequest(**request)
    asked.check()
    with terminal_progress(quiet=quiet) as progress:
        return evaluate_run(layout, find_run(layout, name), asked, progress)


def plot(run: str | TrainedRun, *, root: Root | None = None) -> Figure:
    """Training loss, and cell and exact accuracy of training and validation, over the steps.

    Args:
        run: What `trm_train.train` returned, or a run's name, its folder or an experiment.
        root: As in `evaluate`.

    Returns:
        A matplotlib figure; notebooks show it, `figure.savefig("curves.png")` writes it.

    Raises:
        ConfigError: There is no such run.
    """
    from matplotlib.figure import Figure

    name, layout = named(run, root)
    rows = read_train_metrics(name, layout).collect()
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    losses, accuracies = figure.subplots(1, 2)
    trained = rows.filter(pl.col("split") == "train")
    losses.plot(trained["step"], trained["lm_loss"], linewidth=1)
    losses.set(xlabel="step", ylabel="cross-entropy of the cells (nats)", title="training loss")
    for split, style in (("train", "-"), ("validation", "o-")):
        found = rows.filter((pl.col("split") == split) & pl.col("exact_accuracy").is_not_null())
        for column, colour in (("accuracy", "tab:blue"), ("exact_accuracy", "tab:orange")):
            label = f"{'cells' if column == 'accuracy' else 'exact'}, {split}"
            alpha = 0.4 if split == "train" else 1.0
            accuracies.plot(
                found["step"],
                100 * found[column],
                style,
                color=colour,
                alpha=alpha,
                markersize=3,
                label=label,
            )
    accuracies.set(xlabel="step", ylabel="%", ylim=(0, 101), title="accuracy")
    accuracies.legend(fontsize="small")
    figure.suptitle(name, fontsize="medium")
    return figure
