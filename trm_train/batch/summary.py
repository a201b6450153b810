"""Summary of a batch: one row per run, as JSON and Parquet."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trm_data.storage.atomic import write_bytes, write_json
from trm_train.batch.flow import Job

JSON_FILE = "summary.json"
PARQUET_FILE = "summary.parquet"

_COLUMNS: list[tuple[str, pa.DataType, str]] = [
    ("experiment", pa.string(), "name of the experiment whose run it is"),
    ("names", pa.list_(pa.string()), "experiments that were asked for and have this run"),
    ("experiment_group", pa.string(), "file the experiment is written in"),
    ("run", pa.string(), "name of the run"),
    ("scale", pa.string(), "full, laptop or tiny; own outside the study"),
    ("data", pa.string(), "published, generated-extreme or generated"),
    ("seed", pa.int64(), "seed of the run"),
    ("varies", pa.string(), "what it has of its own"),
    ("dataset", pa.string(), "name of the dataset"),
    ("state", pa.string(), "done, failed, interrupted or waiting"),
    ("reason", pa.string(), "why it failed"),
    ("step", pa.int64(), "optimizer steps taken (steps)"),
    ("total_steps", pa.int64(), "optimizer steps planned (steps)"),
    ("train_seconds", pa.float64(), "training time over all starts, compilation aside (s)"),
    ("compile_seconds", pa.float64(), "time to compile at the last start (s)"),
    ("examples_per_s", pa.float64(), "slots per second before the last heartbeat (examples/s)"),
    ("training_flops", pa.float64(), "floating-point operations of all steps, counted from the shapes"),
    ("best_validation", pa.float64(), "best exact accuracy of the validations (0 to 1)"),
    ("evaluation", pa.string(), "id of the test, as in the table evals"),
    ("count", pa.int64(), "rows tested (examples)"),
    ("exact_count", pa.int64(), "rows with every cell right (examples)"),
    ("exact_accuracy", pa.float64(), "share of rows with every cell right (0 to 1)"),
    ("exact_low", pa.float64(), "lower end of its 95% interval (Wilson)"),
    ("exact_high", pa.float64(), "upper end of its 95% interval (Wilson)"),
    ("cell_accuracy", pa.float64(), "share of cells that are right (0 to 1)"),
    ("q_halt_accuracy", pa.float64(), "share of rows whose halting logit fits their rightness (0 to 1)"),
    ("lm_loss", pa.float64(), "mean cross-entropy over cells, mean over rows (nats)"),
    ("test_seconds", pa.float64(), "wall-clock time of the test, compilation included (s)"),
]
SCHEMA = pa.schema([pa.field(name, kind, metadata={"comment": text}) for name, kind, text in _COLUMNS])


def summary_row(job: Job) -> dict[str, Any]:
    """Return the summary row of a run; unknown values are None."""
    run, status, test = job.planned, job.status, job.test
    setting = run.experiment.setting()
    row: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    row |= {
        "experiment": run.experiment.name,
        "names": list(run.names),
        "experiment_group": run.experiment.group,
        "run": run.run,
        "scale": setting.scale,
        "data": setting.data,
        "seed": run.config.seed,
        "varies": run.experiment.says(run.config),
        "dataset": run.dataset,
        "state": job.state,
        "reason": job.reason if job.state == "failed" else "",
        "total_steps": run.config.total_steps,
        "training_flops": None if run.cost is None else run.cost.training_flops,
    }
    if status is not None:
        row |= {
            "step": status.step,
            "train_seconds": status.seconds,
            "compile_seconds": status.compile_s,
            "examples_per_s": status.examples_per_s,
            "best_validation": status.exact_accuracy,
        }
    if test is not None and test["count"]:
        from scipy.stats import binomtest

        interval = binomtest(test["exact_count"], test["count"]).proportion_ci(method="wilson")
        row |= {
            "evaluation": test["evaluation"],
            "count": test["count"],
            "exact_count": test["exact_count"],
            "exact_accuracy": test["exact_count"] / test["count"],
            "exact_low": float(interval.low),
            "exact_high": float(interval.high),
            "cell_accuracy": 1 - test["wrong_cells"] / test["cells"],
            "q_halt_accuracy": test["q_halt_right_count"] / test["count"],
            "lm_loss": test["lm_loss_sum"] / test["count"],
            "test_seconds": test["seconds"],
        }
    return row


def write_summary(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    """Write the rows of a batch, each file atomically."""
    table = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=SCHEMA), table, compression="zstd")
    write_bytes(folder / PARQUET_FILE, table.getvalue())
    write_json(folder / JSON_FILE, list(rows))
