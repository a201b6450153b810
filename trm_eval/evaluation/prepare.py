"""Preparation of an evaluation: checkpoint, split, weights, program."""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import trm_data
import trm_eval
import trm_train
from trm_data.errors import DatasetNotFoundError
from trm_data.kinds.registry import load_kind
from trm_data.loader.dataset import Dataset, groups_in, open_dataset
from trm_data.manifest import read_manifest
from trm_data.specs import canonical_json
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.errors import EvalError, NoCheckpointError
from trm_eval.identity import EvalRequest, evaluation_id
from trm_eval.infer import Answerer, LoadedNetwork, compile_rollout, on_this_host, restore
from trm_eval.rollout import SELECTIONS, RowReader, choose_rows
from trm_train.checkpoint.manager import fingerprints, weights_steps
from trm_train.config.run import leaves
from trm_train.hosts import Hosts
from trm_train.metrics import read_metrics, totals
from trm_train.runs.record import RunRecord, input_spec, read_record
from trm_train.runs.status import written_steps
from trm_train.step.compile import use_compilation_cache
from trm_train.training.prepare import code_digest, library_versions

LOG = logging.getLogger(__name__)


def checkpoints_of(run: Folder, checkpoint: str) -> list[str]:
    """Return values for `EvalRequest.checkpoint`: every saved step for `all`, otherwise the given name.

    For a run without a checkpoint, `all` becomes `last`, whose evaluation reports the problem.
    """
    return [str(step) for step in weights_steps(run)] or ["last"] if checkpoint == "all" else [checkpoint]


def choose_step(run: Folder, checkpoint: str) -> int:
    """Return the step for `last`, `best` or a number."""
    steps = weights_steps(run)
    if not steps:
        raise NoCheckpointError(
            f"{run.name}: has no checkpoint yet (--execution.checkpoint-every N sets their interval)"
        )
    if checkpoint == "last":
        return steps[-1]
    if checkpoint == "best":
        metrics = totals(read_metrics(run, written_steps(run))).to_pylist()
        metrics = [row for row in metrics if row["split"] == "validation"]
        metrics = [row for row in metrics if row["step"] in steps and row["count"]]
        scored = [(row["exact_count"] / row["count"], row["step"]) for row in metrics]
        if not scored:
            raise EvalError(f"{run.name}: has no validated checkpoint. Use --checkpoint last")
        return max(scored)[1]
    if not checkpoint.isdecimal() or int(checkpoint) not in steps:
        raise EvalError(
            f"--checkpoint {checkpoint}: {run.name} has {', '.join(map(str, steps))}; or 'last', 'best', 'all'"
        )
    return int(checkpoint)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """An evaluation that is ready to answer its first row.

    Attributes:
        record: Record of the run.
        request: Normalized request.
        step: Step of the checkpoint.
        dataset: Split to evaluate on.
        evaluation: Id of the evaluation.
        rows: Row numbers in the split, in order.
        supervision_steps: Maximum number of supervision steps per row.
        here: If traces are requested, the weights on this process's devices only.
        reader: Reader of the rows.
        answer: Compiled program that answers row numbers.
        compile_seconds: Time to trace and compile, or to read from the cache (s).
    """

    record: RunRecord
    request: EvalRequest
    step: int
    dataset: Dataset
    evaluation: str
    rows: NDArray[np.int64]
    supervision_steps: int
    here: LoadedNetwork
    reader: RowReader
    answer: Answerer
    compile_seconds: float


def prepare(layout: Layout, run: Folder, request: EvalRequest, hosts: Hosts) -> Prepared:
    """Open, restore and compile everything for an evaluation, identically in all processes."""
    request.check()
    use_compilation_cache()
    record = read_record(run)
    for line in record.code_changes():
        LOG.warning("%s", line)
    # The run may be saving another checkpoint, so process 0 decides.
    chosen = str(choose_step(run, request.checkpoint)) if hosts.is_coordinator else "-"
    step = int(hosts.barrier("checkpoint", chosen)[0])
    dataset = _open_split(layout, record, request)
    component = record.component(request.dataset)
    if dataset.content_digest == record.content_digest:
        request = replace(request, dataset=None)
    if request.limit >= len(dataset):
        request = replace(request, limit=0, subset_seed=None)
    if request.precision == record.config.model.forward_dtype:
        request = replace(request, precision=None)
    if request.sampling is not None and request.sampling.selection == "rules":
        manifest, tokens = dataset.manifest, dataset.read(np.zeros(1, np.int64))["inputs"].astype(np.uint8)
        if load_kind(manifest.kind).satisfies(manifest.spec, tokens, tokens) is None:
            others = ", ".join(name for name in SELECTIONS if name != "rules")
            raise EvalError(
                f"--select rules: the puzzles of {manifest.name} have no rules beside their labels; expected {others}"
            )
    supervision_steps = request.supervision_steps or record.config.model.halt_max_steps
    if hosts.count > 1:
        hosts.prove_equal(
            "what is evaluated", evaluation_facts(record, request, step, supervision_steps, dataset)
        )
    read_metrics(run, partial=True)  # report damage before hours of inference
    rows = choose_rows(len(dataset), request.limit, request.subset_seed)
    restored = restore(run, record, step=step, weights=request.weights, precision=request.precision)
    if hosts.count > 1:
        digest = hashlib.sha256(canonical_json(fingerprints(restored.weights))).hexdigest()[:16]
        hosts.prove_equal("weights", {f"checkpoint of step {step}": digest})
    spec = restored.record.input_spec
    identifiers = spec.num_identifiers if component is None else component.num_identifiers
    reader = RowReader(dataset, request.identifiers, identifiers, component, spec.sequence_length)
    begun = time.perf_counter()
    answer = compile_rollout(restored, reader, request, supervision_steps)
    return Prepared(
        record=record,
        request=request,
        step=step,
        dataset=dataset,
        evaluation=evaluation_id(record, request, step, supervision_steps, dataset),
        rows=rows,
        supervision_steps=supervision_steps,
        here=on_this_host(restored) if request.traces else restored,
        reader=reader,
        answer=answer,
        compile_seconds=time.perf_counter() - begun,
    )


def _open_split(layout: Layout, record: RunRecord, request: EvalRequest) -> Dataset:
    """Open the split to evaluate on: of a dataset that the run learned from, or of one with the same encoding."""
    component = record.component(request.dataset)
    own = record.config.data.only_dataset() if component is None else component.dataset
    name = own if component is not None else request.dataset or own
    digest = record.content_digest if component is None else component.content_digest
    splits = read_manifest(layout, name).splits
    split = request.split
    if split is None:
        split = next((held_out for held_out in ("test", "validation") if held_out in splits), None)
        if split is None:
            raise EvalError(
                f"dataset {name} has no held-out split; evaluate on --split train, or build it with one"
            )
    dataset = open_dataset(name, layout, split)
    if dataset.content_digest != digest:
        if name != own:
            _check_encoding(dataset, record, request)
            _warn_of_trained_puzzles(dataset, own, layout)
            return dataset
        raise EvalError(
            f"dataset {name} has digest {dataset.content_digest[:12]}, the run learned from "
            f"{digest[:12]}; rebuild that dataset"
        )
    return dataset


def _warn_of_trained_puzzles(dataset: Dataset, own: str, layout: Layout) -> None:
    """Log a warning if a run is tested on puzzles of its training split, up to symmetry, in another dataset."""
    try:
        trained = open_dataset(own, layout, "train")
    except DatasetNotFoundError:
        return
    shared = groups_in(dataset, trained, layout)
    if shared.any():
        LOG.warning(
            "--dataset %s: %s of %s puzzles of its %s split are in the training split of %s, up to symmetry; the "
            "accuracy is not one on unseen puzzles",
            dataset.name,
            f"{int(shared.sum()):,}",
            f"{len(shared):,}",
            dataset.split,
            own,
        )


def _check_encoding(dataset: Dataset, record: RunRecord, request: EvalRequest) -> None:
    """Raise EvalError if the run's network cannot read the rows of a dataset."""
    manifest = dataset.manifest
    own, its = record.input_spec, input_spec(manifest)
    for what, ours, theirs in (
        ("cells a row", own.sequence_length, its.sequence_length),
        ("tokens", own.vocabulary_size, its.vocabulary_size),
    ):
        if ours != theirs:
            raise EvalError(f"--dataset {dataset.name}: has {theirs} {what}, the run's network takes {ours}")
    if getattr(record.config.model, "window", 0) and own.grid != its.grid:
        its_grid, own_grid = (" x ".join(map(str, grid or ("?",))) for grid in (its.grid, own.grid))
        raise EvalError(
            f"--dataset {dataset.name}: its grid is {its_grid}, the run's windows are of {own_grid}"
        )
    foreign = manifest.identifiers_digest != record.identifiers_digest
    if foreign and its.num_identifiers > 1 and request.identifiers == "own":
        raise EvalError(
            f"--dataset {dataset.name}: its puzzle identifiers differ from those of training. Use --identifiers "
            f"blank, or learn them first: trm-train run {record.experiment} --data.dataset {dataset.name} --init-from "
            f"{record.run} --optim.freeze-weights"
        )


def evaluation_facts(
    record: RunRecord, request: EvalRequest, step: int, supervision_steps: int, dataset: Dataset
) -> dict[str, Any]:
    """Return what this process would evaluate, and with which versions, as plain JSON values by name."""
    return {
        "run": record.run,
        "configuration": record.identity,
        **dict(leaves(asdict(request))),
        "checkpoint": step,
        "supervision_steps": supervision_steps,
        "dataset": dataset.name,
        "dataset content digest": dataset.content_digest,
        "split": dataset.split,
        "split digest": dataset.split_digest,
        "code of trm_data, trm_train and trm_eval": code_digest(trm_data, trm_train, trm_eval),
        **library_versions(),
    }
