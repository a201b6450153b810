"""The tables `runs` and `train_metrics`, read from the run folders, evaluated or not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import pyarrow as pa

from trm_data.errors import Note
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.tables.recent import recent
from trm_eval.tables.schema import RUN_STATUS, RUNS
from trm_train.config.run import RunConfig, config_to_json
from trm_train.errors import ForeignRunError
from trm_train.metrics.table import FOLDER, missing_steps, part_names
from trm_train.runs.record import RunRecord, differences_of, read_records, say_differences
from trm_train.runs.status import read_status, written_steps


def run_row(record: RunRecord, differs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A run's row in `runs`; `differs` is from `differences_of`."""
    return {
        "experiment_group": record.group,
        "scale": record.scale,
        "data": record.data,
        "identity": record.identity,
        "seed": record.config.seed,
        "dataset": record.config.data.label,
        "differs": say_differences(differs),
        "label": record.label,
        "content_digest": record.content_digest,
        "config": _config_text(record.config),
        "total_steps": record.total_steps,
        "global_batch_size": record.config.data.global_batch_size,
        "created_at": datetime.fromisoformat(record.created_at),
        "versions": json.dumps(record.versions, sort_keys=True),
        "parameters": record.parameters,
        "training_flops": record.training_flops,
        "evaluation_flops": record.evaluation_flops,
    }


@lru_cache(10_000)
def _config_text(config: RunConfig) -> str:
    return json.dumps(config_to_json(config), sort_keys=True)


@recent
def live_runs(layout: Layout) -> tuple[pa.Table, list[tuple[Folder, RunRecord]], list[str]]:
    """Every run under a root, its folder and record, and a line for each run whose record cannot be read.

    The line is a `Note` where the record is whole, of a version or architecture that this checkout lacks.
    """
    found = read_records(layout)
    runs = [(folder, record) for folder, record in found if isinstance(record, RunRecord)]
    problems = [
        Note(record) if isinstance(record, ForeignRunError) else str(record)
        for _, record in found
        if not isinstance(record, RunRecord)
    ]
    statuses = layout.store.each(read_status, [folder for folder, _ in runs])
    rows: list[dict[str, Any]] = []
    differ = differences_of([record for _, record in runs])
    for (_, record), status, differs in zip(runs, statuses, differ, strict=True):
        row = {"experiment": record.experiment, "run": record.run, **run_row(record, differs)}
        if status is not None:
            row |= {
                "state": status.state,
                "step": status.step,
                "examples_per_s": status.examples_per_s,
                "train_seconds": status.seconds,
                "compile_seconds": status.compile_s,
                "heartbeat": datetime.fromisoformat(status.heartbeat),
                "loss": status.loss,
                "best_validation": status.exact_accuracy,
                "best_optimal_share": status.optimal_share,
            }
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=no_runs().schema), runs, problems


def no_runs() -> pa.Table:
    """The table of `live_runs` without rows."""
    names = pa.schema([("experiment", pa.string()), ("run", pa.string())])
    return pa.unify_schemas([RUNS, RUN_STATUS, names]).empty_table()


def live_parts(
    layout: Layout, runs: list[tuple[Folder, RunRecord]]
) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Name in the folder of runs, experiment and run of every metric part; and a line for each run that lacks one."""
    top = f"{layout.runs.path}/"
    parts: list[tuple[str, str, str]] = []
    problems: list[str] = []
    folders = [folder for folder, _ in runs]
    # The status first: a later status may name parts that were not listed yet.
    written = layout.store.each(written_steps, folders)
    names_of_runs = layout.store.each(part_names, folders)
    for (folder, record), last, names in zip(runs, written, names_of_runs, strict=True):
        if steps := missing_steps(names, last):
            problems.append(
                f"{record.run}: the metrics of steps {steps} are missing: a part in {folder.where(FOLDER)} is gone"
            )
        at = f"{folder.path.removeprefix(top)}/{FOLDER}"
        parts += [(f"{at}/{name}", record.experiment, record.run) for name in names]
    return parts, problems
