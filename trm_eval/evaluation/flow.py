"""Evaluates a checkpoint of a run on a split and writes the result tables. Reads top to bottom in `evaluate_run`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trm_data.catalog.read import read_ratings
from trm_data.show.progress import NoProgress, Progress
from trm_data.storage.atomic import LEFT_S
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.evaluation.prepare import Prepared, prepare
from trm_eval.evaluation.row import Tally, evals_row
from trm_eval.identity import EvalRequest
from trm_eval.predictions import PredictionWriter
from trm_eval.tables.live import run_row
from trm_eval.tables.schema import TABLES
from trm_eval.tables.writer import drop_replaced, named_before, replace_table, table_folder
from trm_eval.traces import write_traces
from trm_eval.votes import write_votes
from trm_train.hosts import Hosts, explaining_lost_processes
from trm_train.runs.record import RunRecord, differences_of

WAY_ON = "nothing half-written counts, the same commands evaluate it again"
WRITTEN_S = 86_400.0
"""Timeout of the last barrier (s); long, because process 0 writes the tables."""


@dataclass(frozen=True, kw_only=True)
class EvalResult:
    """Result of an evaluation; `row` is its row in `evals`."""

    run: str
    experiment: str
    row: dict[str, Any]

    def __str__(self) -> str:
        """One line, computed only from the row."""
        row = self.row
        share = f"{100 * row['exact_count'] / row['count']:.2f}%" if row["count"] else "no share"
        return f"{self.run}: exact accuracy {share} ({row['exact_count']:,} of {row['count']:,}), {row['evaluation']}"


def evaluate_run(
    layout: Layout,
    run: Folder,
    request: EvalRequest,
    progress: Progress | None = None,
    hosts: Hosts | None = None,
) -> EvalResult:
    """Evaluate one checkpoint on the requested rows, each once, and write the result tables: `runs`, `train_metrics`,
    `predictions`, `votes` if the kind has them, `traces` if requested, and `evals`.

    Args:
        layout: Root with the dataset, where the results are written.
        run: The run's folder.
        request: What to evaluate.
        progress: Progress display.
        hosts: All processes of the evaluation; this is the first one, and the others call `assist`.

    Raises:
        EvalError: The request does not fit the run or its dataset.
        ConfigError: The folder is not a run folder.
        CheckpointError: The checkpoint does not exist.
        CorruptDatasetError: The dataset has changed since it was built.
        HostError: The processes would evaluate different things, or one of them has ended.
    """
    hosts, progress = hosts or Hosts(), progress or NoProgress()
    with explaining_lost_processes(hosts, run.name, WAY_ON):
        result = _write(layout, run, prepare(layout, run, request, hosts), progress)
    hosts.barrier("the end of an evaluation", limit_s=WRITTEN_S)
    return result


def assist(layout: Layout, run: Folder, request: EvalRequest, hosts: Hosts) -> None:
    """Answer this process's part of the rows of `evaluate_run`, which process 0 calls; only process 0 writes."""
    with explaining_lost_processes(hosts, run.name, WAY_ON):
        ours = prepare(layout, run, request, hosts)
        for _ in ours.answer(ours.rows):
            pass
    hosts.barrier("the end of an evaluation", limit_s=WRITTEN_S)


def _write(layout: Layout, run: Folder, ours: Prepared, progress: Progress) -> EvalResult:
    """Answer the rows and write all tables, `evals` last."""
    record, dataset, evaluation = ours.record, ours.dataset, ours.evaluation
    for table in TABLES:
        folder = table_folder(layout, table, record.experiment, record.run)
        folder.store.remove_temporary(folder.path, older_s=LEFT_S)
    ratings = read_ratings(layout.dataset(dataset.name), dataset.manifest, dataset.split)
    predictions = PredictionWriter(layout, record, evaluation, dataset, ours.supervision_steps, ratings)
    tally = Tally()
    progress.start(f"evaluate {dataset.split}", len(ours.rows), "examples")
    for inferred in ours.answer(ours.rows):
        tally.add(inferred, predictions.add(inferred))
        progress.advance(len(inferred.rows))
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
    publish_run(layout, record)
    row = evals_row(ours.request, ours.step, dataset, predictions, tally, len(ours.rows), record)
    row |= {
        "compile_seconds": ours.compile_seconds,
        **votes,
        **traces,
    }
    before = named_before(layout, record.experiment, record.run, evaluation)
    replace_table(layout, "evals", record.experiment, record.run, evaluation, [row])
    drop_replaced(layout, record.experiment, record.run, before, row)
    return EvalResult(run=record.run, experiment=record.experiment, row=row)


def publish_run(layout: Layout, record: RunRecord) -> None:
    """Write the record of a run to the result tables, which keep it if the run's folder is deleted."""
    (differs,) = differences_of([record])
    replace_table(layout, "runs", record.experiment, record.run, "run", [run_row(record, differs)])
