"""Evaluates a checkpoint of a run on a split and writes the result tables. Reads top to bottom in `evaluate_run`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from trm_data.loader.dataset import Dataset, open_dataset
from trm_data.manifest import read_manifest
from trm_data.show.progress import NoProgress, Progress
from trm_data.storage.atomic import LEFT_S
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.errors import EvalError
from trm_eval.identity import EVALUATION_VERSION, EvalRequest, evaluation_id
from trm_eval.infer import infer
from trm_eval.predictions import PredictionWriter
from trm_eval.score.depth import depth_counts
from trm_eval.tables.live import run_row
from trm_eval.tables.schema import TABLES
from trm_eval.tables.writer import drop_replaced, named_before, replace_table, table_folder
from trm_eval.votes import write_votes
from trm_train.checkpoint.manager import weights_steps
from trm_train.metrics.table import read_metrics
from trm_train.run.record import RunRecord, read_record
from trm_train.run.status import written_steps
from trm_train.step.compile import use_compilation_cache


@dataclass(frozen=True, kw_only=True)
class EvalResult:
    """What an evaluation gave; `row` is its row in `evals`."""

    run: str
    experiment: str
    row: dict[str, Any]


def evaluate_run(
    layout: Layout, run: Folder, request: EvalRequest, progress: Progress | None = None
) -> EvalResult:
    """Evaluate one checkpoint, every row once, and write `runs`, `train_metrics`, `predictions`, `votes` and `evals`.

    Args:
        layout: The root that holds the dataset and takes the results.
        run: The run's folder.
        request: What to evaluate.
        progress: Told of the rows.

    Raises:
        EvalError: The request does not fit the run or its dataset.
        ConfigError: The folder holds no run.
        CheckpointError: There is no such checkpoint.
        CorruptDatasetError: The dataset is not what was built.
    """
    use_compilation_cache()
    record = read_record(run)
    step = choose_step(run, request.checkpoint)
    dataset = _open_split(layout, record, request)
    if request.limit >= len(dataset):
        request = replace(request, limit=0)
    supervision_steps = request.supervision_steps or record.config.model.halt_max_steps
    evaluation = evaluation_id(record, request, step, supervision_steps, dataset)
    read_metrics(run, partial=True)  # what is damaged is said before hours of inference
    batches = infer(
        run,
        record,
        dataset,
        step=step,
        weights=request.weights,
        supervision_steps=supervision_steps,
        limit=request.limit,
        progress=progress or NoProgress(),
    )
    for table in TABLES:
        folder = table_folder(layout, table, record.experiment, record.run)
        folder.store.remove_temporary(folder.path, older_s=LEFT_S)
    predictions = PredictionWriter(layout, record, evaluation, dataset, supervision_steps)
    sums: dict[str, float] = {}
    by_depth: dict[str, Any] = {}
    for inferred in batches:
        labelled = predictions.add(inferred)
        for name, counts in depth_counts(inferred.wrong_by_step, inferred.halt_steps, labelled).items():
            by_depth[name] = by_depth.get(name, 0) + counts
        for name, value in {**inferred.metrics, "seconds": inferred.seconds}.items():
            sums[name] = sums.get(name, 0.0) + value
    predictions.finish()
    votes = write_votes(layout, record, dataset, predictions)
    publish_run(layout, run, record)
    row = _evals_row(request, step, dataset, predictions, sums)
    row |= {name: counts.tolist() for name, counts in by_depth.items()} | votes
    before = named_before(layout, record.experiment, record.run, evaluation)
    replace_table(layout, "evals", record.experiment, record.run, evaluation, [row])
    drop_replaced(layout, record.experiment, record.run, before, row)
    return EvalResult(run=record.run, experiment=record.experiment, row=row)


def checkpoints_of(run: Folder, checkpoint: str) -> list[str]:
    """What `EvalRequest.checkpoint` takes: every step there is for `all`, else what was asked for.

    Raises:
        EvalError: `all` of a run that has no checkpoint yet.
    """
    return [str(step) for step in _steps_of(run)] if checkpoint == "all" else [checkpoint]


def choose_step(run: Folder, checkpoint: str) -> int:
    """The step that `last`, `best` or a number names.

    Raises:
        EvalError: The run has no checkpoint yet, none at that step, or no validation to find the best by.
    """
    steps = _steps_of(run)
    if checkpoint == "last":
        return steps[-1]
    if checkpoint == "best":
        metrics = read_metrics(run, written_steps(run)).to_pylist()
        metrics = [row for row in metrics if row["split"] == "validation"]
        scored = [(row["exact_count"] / row["count"], row["step"]) for row in metrics if row["step"] in steps]
        if not scored:
            raise EvalError(
                f"{run.name}: has no validated checkpoint to call the best; use --checkpoint last"
            )
        return max(scored)[1]
    if not checkpoint.isdecimal() or int(checkpoint) not in steps:
        raise EvalError(
            f"--checkpoint {checkpoint}: {run.name} has {', '.join(map(str, steps))}; or 'last', or 'best'"
        )
    return int(checkpoint)


def _steps_of(run: Folder) -> list[int]:
    steps = weights_steps(run)
    if not steps:
        raise EvalError(
            f"{run.name}: has no checkpoint yet; the first is written at execution.checkpoint_every steps"
        )
    return steps


def publish_run(layout: Layout, run: Folder, record: RunRecord) -> None:
    """Write what a run is and how its training went beside the results."""
    replace_table(layout, "runs", record.experiment, record.run, "run", [run_row(record)])
    metrics = read_metrics(run, partial=True)  # the views over runs say what is missing
    replace_table(layout, "train_metrics", record.experiment, record.run, "train_metrics", metrics)


def _open_split(layout: Layout, record: RunRecord, request: EvalRequest) -> Dataset:
    """The split to evaluate on, of the very dataset the run learned from."""
    name = record.config.data.only_dataset()
    splits = read_manifest(layout, name).splits
    split = request.split
    if split is None:
        split = next((held_out for held_out in ("test", "validation") if held_out in splits), None)
        if split is None:
            raise EvalError(
                f"dataset {name} has no held-out split; evaluate on --split train, or build it with one"
            )
    dataset = open_dataset(name, layout, split)
    if dataset.content_digest != record.content_digest:
        raise EvalError(
            f"dataset {name} has digest {dataset.content_digest[:12]}, the run learned from "
            f"{record.content_digest[:12]}; rebuild the dataset it learned from"
        )
    return dataset


def _evals_row(
    request: EvalRequest, step: int, dataset: Dataset, predictions: PredictionWriter, sums: dict[str, float]
) -> dict[str, Any]:
    """The row in `evals`.

    Raises:
        EvalError: The device saw other rows, or found others right, than the predictions say.
    """
    expected = min(request.limit, len(dataset)) if request.limit else len(dataset)
    seen, right = int(sums["count"]), int(sums["exact_accuracy"])
    unlabelled = predictions.rows - predictions.labelled
    if (seen + unlabelled, right) != (expected, predictions.exact):
        raise EvalError(
            f"evaluated {seen + unlabelled} of {expected} rows, {right} exact on the device and {predictions.exact} in "
            "the predictions: results are not written"
        )
    return {
        "evaluation": predictions.evaluation,
        "step": step,
        "weights": request.weights,
        "dataset": dataset.name,
        "split": dataset.split,
        "split_digest": dataset.split_digest,
        "row_limit": request.limit,
        "supervision_steps": predictions.supervision_steps,
        "count": seen,
        "exact_count": right,
        "cells": predictions.cells,
        "wrong_cells": predictions.wrong_cells,
        "q_halt_right_count": int(sums["q_halt_accuracy"]),
        "lm_loss_sum": sums["lm_loss"],
        "seconds": sums["seconds"],
        "evaluation_version": EVALUATION_VERSION,
        "code_version": version("trm-lab"),
        "created_at": datetime.now(UTC),
        "parts": predictions.parts,
        "part_digests": predictions.digests,
        **predictions.scored,
    }
