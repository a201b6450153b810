"""Evaluation from Python: `evaluate` and `plot`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import polars as pl

from trm_data.catalog.schema import quote_literal
from trm_data.errors import arguments_named
from trm_data.show.progress import terminal_progress
from trm_data.storage.root import Layout, Root, resolve_root
from trm_eval.identity import EvalRequest
from trm_eval.tables.query import sql
from trm_train.api import TrainedRun
from trm_train.runs.record import find_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    name, layout = named(run, root)
    asked = EvalRequest(**request)
    asked.check()
    with terminal_progress(quiet=quiet) as progress:
        return evaluate_run(layout, find_run(layout, name), asked, progress)


def plot(run: str | TrainedRun, *, root: Root | None = None) -> Figure:
    """Plot training loss, and cell and exact accuracy of training and validation, over the steps.

    Args:
        run: Result of `trm_train.train`, or a run's name, its folder or an experiment.
        root: As in `evaluate`.

    Returns:
        A matplotlib figure; notebooks show it, `figure.savefig("curves.png")` writes it.

    Raises:
        ConfigError: The run does not exist.
    """
    from matplotlib.figure import Figure

    name, layout = named(run, root)
    name = find_run(layout, name).name
    rows = sql(
        f"FROM train_metrics WHERE run = {quote_literal(name)} AND dataset IS NULL ORDER BY step", layout
    )
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


def named(run: str | TrainedRun, root: Root | None) -> tuple[str, Layout]:
    """Return a run's name and its root."""
    if isinstance(run, TrainedRun):
        return run.name, run.layout if root is None else resolve_root(root)
    return run, resolve_root(root)
