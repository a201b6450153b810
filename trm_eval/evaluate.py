"""Evaluates a checkpoint of a run on a split and writes the result tables. Reads top to bottom in `evaluate_run`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.catalog.read import read_ratings
from trm_data.loader.dataset import Dataset, open_dataset
from trm_data.manifest import read_manifest
from trm_data.show.progress import NoProgress, Progress
from trm_data.storage.atomic import LEFT_S
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.adapt import Adapted, adapt
from trm_eval.errors import EvalError
from trm_eval.facts import digest_of_weights, facts_of
from trm_eval.identity import EVALUATION_VERSION, EvalRequest, evaluation_id
from trm_eval.infer import Restored, Rollout, compile_rollout, on_this_host, restore, with_progress
from trm_eval.predictions import PredictionWriter
from trm_eval.rollout.inferred import Inferred
from trm_eval.rollout.rows import RowReader, choose_rows
from trm_eval.score.depth import depth_counts
from trm_eval.tables.live import run_row
from trm_eval.tables.schema import TABLES
from trm_eval.tables.writer import adding, drop_replaced, named_before, replace_table, table_folder
from trm_eval.traces import write_traces
from trm_eval.votes import write_votes
from trm_train.checkpoint.manager import weights_steps
from trm_train.hosts.lost import naming_the_lost
from trm_train.hosts.together import Hosts
from trm_train.metrics.table import read_metrics
from trm_train.run.record import RunRecord, input_spec, read_record
from trm_train.run.status import written_steps
from trm_train.step.compile import use_compilation_cache

WAY_ON = "nothing half-written counts, the same commands evaluate it again"
WRITTEN_S = 86_400.0
"""Processes that are done wait so long for the first, which writes the tables."""


@dataclass(frozen=True, kw_only=True)
class EvalResult:
    """What an evaluation gave; `row` is its row in `evals`."""

    run: str
    experiment: str
    row: dict[str, Any]

    def in_brief(self) -> str:
        """A line, from the row alone."""
        row = self.row
        share = f"{100 * row['exact_count'] / row['count']:.2f}%" if row["count"] else "no share"
        return f"{self.run}: exact accuracy {share} ({row['exact_count']:,} of {row['count']:,}), {row['evaluation']}"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """An evaluation that is about to answer its first row.

    Attributes:
        record: The run.
        request: What was asked for, in as few words as say the same.
        step: The checkpoint.
        dataset: The split.
        evaluation: Id of the evaluation.
        rows: Of the split, in order.
        supervision_steps: Each is given, at most.
        restored: The weights, after adaptation.
        here: The same where traces are asked for, on this process's devices alone.
        adapted: What was learned before.
        reader: Reads the rows.
        rollout: Answers them.
    """

    record: RunRecord
    request: EvalRequest
    step: int
    dataset: Dataset
    evaluation: str
    rows: NDArray[np.int64]
    supervision_steps: int
    restored: Restored
    here: Restored
    adapted: Adapted | None
    reader: RowReader
    rollout: Rollout


def evaluate_run(
    layout: Layout,
    run: Folder,
    request: EvalRequest,
    progress: Progress | None = None,
    hosts: Hosts | None = None,
) -> EvalResult:
    """Evaluate one checkpoint on the rows asked for, each once, and write the result tables: `runs`, `train_metrics`,
    `predictions`, `votes` where the kind has them, `traces` where they are asked for, and `evals`.

    Args:
        layout: The root that holds the dataset and takes the results.
        run: The run's folder.
        request: What to evaluate.
        progress: Told of the rows.
        hosts: All processes that evaluate it, of which this is the first; the others call `assist`.

    Raises:
        EvalError: The request does not fit the run or its dataset.
        ConfigError: The folder holds no run.
        CheckpointError: There is no such checkpoint.
        CorruptDatasetError: The dataset is not what was built.
        HostError: The processes differ in what they evaluate, or one of them is gone.
    """
    hosts, progress = hosts or Hosts(), progress or NoProgress()
    record = read_record(run)
    with adding(layout, record.experiment, record.run), naming_the_lost(hosts, run.name, WAY_ON):
        result = _write(layout, run, _prepare(layout, run, request, progress, hosts), progress)
    hosts.meet("the end of an evaluation", limit_s=WRITTEN_S)
    return result


def assist(layout: Layout, run: Folder, request: EvalRequest, hosts: Hosts) -> None:
    """Answer this process's part of the rows of `evaluate_run`, which the first process calls; it alone writes.

    Raises:
        LabError: As `evaluate_run`.
    """
    with naming_the_lost(hosts, run.name, WAY_ON):
        ours = _prepare(layout, run, request, NoProgress(), hosts)
        for _ in ours.rollout.answer(ours.rows):
            pass
    hosts.meet("the end of an evaluation", limit_s=WRITTEN_S)


def _prepare(layout: Layout, run: Folder, request: EvalRequest, progress: Progress, hosts: Hosts) -> Prepared:
    """Open, restore and compile what an evaluation needs, the same in all its processes."""
    request.check()
    use_compilation_cache()
    record = read_record(run)
    # A run may be saving others: what process 0 finds counts.
    step = int(hosts.meet("checkpoint", str(choose_step(run, request.checkpoint)) if hosts.first else "-")[0])
    dataset = _open_split(layout, record, request)
    if dataset.content_digest == record.content_digest:
        request = replace(request, dataset=None)
    if request.limit >= len(dataset):
        request = replace(request, limit=0, subset_seed=None)
    supervision_steps = request.supervision_steps or record.config.model.halt_max_steps
    if hosts.count > 1:
        hosts.prove_equal("what is evaluated", facts_of(record, request, step, supervision_steps, dataset))
    read_metrics(run, partial=True)  # what is damaged is said before hours of inference
    rows = choose_rows(len(dataset), request.limit, request.subset_seed)
    restored = restore(run, record, step=step, weights=request.weights)
    if hosts.count > 1:
        hosts.prove_equal("weights", {f"checkpoint of step {step}": digest_of_weights(restored.weights)})
    adapted = None
    if request.adaptation is not None:
        train = open_dataset(dataset.name, layout, "train")
        adapted = adapt(restored, train, request.adaptation, progress)
        restored = adapted.restored
    reader = RowReader(dataset, request.identifiers, restored.record.input_spec.num_identifiers)
    return Prepared(
        record=record,
        request=request,
        step=step,
        dataset=dataset,
        evaluation=evaluation_id(record, request, step, supervision_steps, dataset),
        rows=rows,
        supervision_steps=supervision_steps,
        restored=restored,
        here=on_this_host(restored) if request.traces else restored,
        adapted=adapted,
        reader=reader,
        rollout=compile_rollout(restored, reader, request, supervision_steps),
    )


def _write(layout: Layout, run: Folder, ours: Prepared, progress: Progress) -> EvalResult:
    """Answer the rows and write all tables, `evals` last."""
    record, dataset, evaluation = ours.record, ours.dataset, ours.evaluation
    for table in TABLES:
        folder = table_folder(layout, table, record.experiment, record.run)
        folder.store.remove_temporary(folder.path, older_s=LEFT_S)
    ratings = read_ratings(layout.dataset(dataset.name), dataset.manifest, dataset.split)
    predictions = PredictionWriter(layout, record, evaluation, dataset, ours.supervision_steps, ratings)
    tally = Tally()
    for inferred in with_progress(ours.rollout.answer(ours.rows), progress, dataset.split, len(ours.rows)):
        tally.add(inferred, predictions.add(inferred))
    predictions.finish()
    votes = write_votes(layout, record, dataset, predictions)
    traces = write_traces(
        layout,
        ours.here,
        ours.reader,
        ours.rows[: ours.request.traces],
        evaluation,
        supervision_steps=ours.supervision_steps,
        with_latents=ours.request.latents,
    )
    publish_run(layout, run, record)
    row = evals_row(ours.request, ours.step, dataset, predictions, tally, len(ours.rows))
    row |= {
        "compile_seconds": ours.rollout.compile_seconds,
        **votes,
        **traces,
        **_adapted_columns(ours.request, ours.adapted),
    }
    before = named_before(layout, record.experiment, record.run, evaluation)
    replace_table(layout, "evals", record.experiment, record.run, evaluation, [row])
    drop_replaced(layout, record.experiment, record.run, before, row)
    return EvalResult(run=record.run, experiment=record.experiment, row=row)


class Tally:
    """Sums over the rows of an evaluation as they come.

    Attributes:
        sums: Of the metrics and `seconds`.
        spent_steps: Supervision steps of all rows and samples.
        lists: The columns of `evals` that are lists of counts, those that this evaluation has.
    """

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.spent_steps = 0
        self.lists: dict[str, NDArray[np.int64]] = {}

    def add(self, inferred: Inferred, labelled: NDArray[np.bool_]) -> None:
        """Count some rows, of which these have labels."""
        for name, value in {**inferred.metrics, "seconds": inferred.seconds}.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.spent_steps += inferred.spent
        lists: dict[str, NDArray[np.int64]] = {}
        if inferred.wrong_by_step is not None:
            lists = depth_counts(inferred.wrong_by_step, inferred.halt_steps, labelled)
        if (sampled := inferred.sampled) is not None:
            lists["exact_by_samples"] = sampled.exact_by_samples
            lists["oracle_by_samples"] = sampled.oracle_by_samples
        for name, counts in lists.items():
            self.lists[name] = self.lists[name] + counts if name in self.lists else counts


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
        metrics = [row for row in metrics if row["step"] in steps and row["count"]]
        scored = [(row["exact_count"] / row["count"], row["step"]) for row in metrics]
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
    """The split to evaluate on: of the very dataset the run learned from, or of one of the same encoding."""
    own = record.config.data.only_dataset()
    name = request.dataset or own
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
        if name != own:
            _check_encoding(dataset, record, request)
            return dataset
        raise EvalError(
            f"dataset {name} has digest {dataset.content_digest[:12]}, the run learned from "
            f"{record.content_digest[:12]}; rebuild the dataset it learned from"
        )
    return dataset


def _check_encoding(dataset: Dataset, record: RunRecord, request: EvalRequest) -> None:
    """Refuse a dataset whose rows mean something else to the run's network than its own.

    Raises:
        EvalError: Another grid, other tokens, or other puzzle identifiers.
    """
    manifest = dataset.manifest
    own, its = record.input_spec, input_spec(manifest)
    for what, ours, theirs in (
        ("cells a row", own.sequence_length, its.sequence_length),
        ("tokens", own.vocabulary_size, its.vocabulary_size),
    ):
        if ours != theirs:
            raise EvalError(f"--dataset {dataset.name}: has {theirs} {what}, the run's network takes {ours}")
    foreign = manifest.identifiers_digest != record.identifiers_digest
    adapted = request.adaptation is not None
    if foreign and its.num_identifiers > 1 and request.identifiers == "own" and not adapted:
        raise EvalError(
            f"--dataset {dataset.name}: its puzzle identifiers mean other puzzles than those the run learned; "
            "take --identifiers blank, or learn them first: --adapt MINUTES"
        )


def _adapted_columns(request: EvalRequest, adapted: Adapted | None) -> dict[str, Any]:
    """The columns of `evals` that say what was learned before; none where nothing was."""
    if request.adaptation is None or adapted is None:
        return {}
    return {
        "adapt_minutes": request.adaptation.minutes,
        "adapt_steps_asked": request.adaptation.steps,
        "adapt_weights": request.adaptation.weights,
        "adapt_steps": adapted.steps,
        "adapt_seconds": adapted.seconds,
    }


def evals_row(
    request: EvalRequest,
    step: int,
    dataset: Dataset,
    predictions: PredictionWriter,
    tally: Tally,
    expected: int,
) -> dict[str, Any]:
    """The row in `evals`.

    Raises:
        EvalError: The device saw other rows, or found others right, than the predictions say.
    """
    sums, sampling = tally.sums, request.sampling
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
        "mode": request.mode,
        "subset_seed": request.subset_seed,
        "identifiers": request.identifiers,
        "spent_steps": tally.spent_steps,
        "samples": None if sampling is None else sampling.samples,
        "noise": None if sampling is None else sampling.noise,
        "selection": None if sampling is None else sampling.selection,
        "sample_seed": None if sampling is None else sampling.seed,
        **{name: counts.tolist() for name, counts in tally.lists.items()},
        "rated_count": predictions.rated,
        **predictions.scored,
    }
