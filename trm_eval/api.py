"""Evaluation from Python: `evaluate`, `plot`, and results as frames."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import polars as pl

from trm_data.errors import arguments_named
from trm_data.show.progress import terminal_progress
from trm_data.storage.atomic import checked_files
from trm_data.storage.root import Layout, Root, resolve_root
from trm_eval.errors import ResultError
from trm_eval.identity import EvalRequest
from trm_eval.tables.query import query_results
from trm_eval.tables.schema import LATE, NAMED_BY_EVALS, TABLES
from trm_eval.tables.writer import part_names_of, table_folder
from trm_train.api import TrainedRun
from trm_train.metrics import constants, metrics_frame, part_files, scan_parts, with_late_columns
from trm_train.runs.record import find_run, read_record
from trm_train.runs.status import written_steps

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


def read_predictions(run: str | TrainedRun, root: Root | None = None) -> pl.LazyFrame:
    """Return every prediction of a run: a row per example, from the newest evaluation of each request.

    The columns are those of the SQL table `predictions`, plus experiment, run, dataset and split.

    Args:
        run: Result of `trm_train.train`, or a run's name, its folder or an experiment.
        root: Root folder, `gs://bucket/prefix`, a layout or a store (default: that of the run, else `$TRM_ROOT`, else
            `./trm`).

    Raises:
        ConfigError: The run does not exist.
        ResultError: The run has not been evaluated, or a file of predictions is missing.
        CorruptFileError: A file of predictions has changed since it was written.
    """
    name, layout = named(run, root)
    name = find_run(layout, name).name
    if not (found := _named(layout, name, "predictions")):
        raise ResultError(f"{name}: was not evaluated yet: trm-eval run {name}")
    return pl.concat(found)


def read_traces(run: str | TrainedRun, root: Root | None = None) -> pl.LazyFrame:
    """Return the answers of a run after every cycle, for the rows requested by `trm-eval run --traces N`.

    There is a row per example, supervision step and cycle. Latent states, if requested, are read by
    `np.frombuffer(row["latents"], "<f2").reshape(row["latent_shape"])`, [states, L, D], states as in `latent_names`.

    Args:
        run: Result of `trm_train.train`, or a run's name, its folder or an experiment.
        root: Root folder, `gs://bucket/prefix`, a layout or a store (default: that of the run, else `$TRM_ROOT`, else
            `./trm`).

    Raises:
        ConfigError: The run does not exist.
        ResultError: No evaluation of the run has traces, or a file of traces is missing.
        CorruptFileError: A file of traces has changed since it was written.
    """
    name, layout = named(run, root)
    name = find_run(layout, name).name
    if not (found := _named(layout, name, "traces")):
        raise ResultError(f"{name}: no evaluation of it has traces: trm-eval run {name} --traces 10")
    return pl.concat(found)


def _named(layout: Layout, run: str, table: str) -> list[pl.LazyFrame]:
    """Return the rows of a table for each evaluation of a run that has some, the oldest evaluation first."""
    parts, digests = NAMED_BY_EVALS[table]
    found = query_results(
        layout,
        f"SELECT experiment, dataset, split, evaluation, {parts}, {digests} FROM evals "
        f"WHERE run = ? AND {parts} IS NOT NULL ORDER BY created_at",
        [run],
    ).rows
    return [
        _parts(layout, table, experiment, run, part_names_of(*named))
        .filter(pl.col("evaluation") == evaluation)
        .select(*constants(experiment=experiment, run=run, dataset=dataset, split=split), pl.all())
        for experiment, dataset, split, evaluation, *named in found
    ]


def _parts(layout: Layout, table: str, experiment: str, run: str, names: list[str]) -> pl.LazyFrame:
    folder = table_folder(layout, table, experiment, run)
    paths = checked_files(folder, names)
    for name, path in zip(names, paths, strict=True):
        if path is None:
            raise ResultError(f"{folder.where(name)}: is missing; evaluate again")
    late = LATE if table == "predictions" else ()
    return with_late_columns(scan_parts(paths), TABLES[table], late)


def read_train_metrics(
    run: str | TrainedRun, root: Root | None = None, *, by_dataset: bool = False
) -> pl.LazyFrame:
    """Return the metric table of a run, evaluated or not: a row per step and split, with sums, counts and rates.

    The columns are those of the SQL table `train_metrics`.

    Args:
        run: Result of `trm_train.train`, or a run's name, its folder or an experiment.
        root: Root folder, `gs://bucket/prefix`, a layout or a store (default: that of the run, else `$TRM_ROOT`, else
            `./trm`).
        by_dataset: Also return a row for each dataset of a mixture, named by the column `dataset`.

    Raises:
        ConfigError: The run does not exist.
        CorruptFileError: A metrics file is missing or has changed since it was written.
    """
    name, layout = named(run, root)
    folder = find_run(layout, name)
    record = read_record(folder)
    paths = part_files(folder, written_steps(folder))
    return metrics_frame(paths, experiment=record.experiment, run=record.run, by_dataset=by_dataset)


def named(run: str | TrainedRun, root: Root | None) -> tuple[str, Layout]:
    """Return a run's name and its root."""
    if isinstance(run, TrainedRun):
        return run.name, run.layout if root is None else resolve_root(root)
    return run, resolve_root(root)
