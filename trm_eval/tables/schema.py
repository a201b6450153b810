"""Schemas of the result tables. Every column has a comment with its unit; SQL shows them.

The folders `experiment=<e>/run=<r>` of a table give two more columns, `experiment` and `run`.
"""

from __future__ import annotations

import pyarrow as pa

from trm_train.metrics.table import SCHEMA as TRAIN_METRICS

PARTITION_COLUMNS = {
    "experiment": "name of the experiment (trm-train list)",
    "run": "name of the run: experiment, hash of its configuration, seed",
}
PARTITIONING = pa.schema([(name, pa.string()) for name in PARTITION_COLUMNS])


def _schema(columns: list[tuple[str, pa.DataType, str]]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, metadata={"comment": text}) for name, kind, text in columns])


RUNS = _schema(
    [
        ("experiment_group", pa.string(), "file the experiment is written in"),
        ("identity", pa.string(), "sha256 over the configuration that changes the mathematics, hexadecimal"),
        ("seed", pa.int64(), "seed of the run"),
        ("dataset", pa.string(), "name of the dataset"),
        ("content_digest", pa.string(), "digest of the dataset's rows, hexadecimal"),
        ("config", pa.string(), "the whole configuration as JSON"),
        ("total_steps", pa.int64(), "optimizer steps planned (steps)"),
        ("global_batch_size", pa.int32(), "slots of a batch (examples)"),
        ("created_at", pa.timestamp("us", "UTC"), "when the run began (UTC)"),
        ("versions", pa.string(), "library versions as JSON"),
    ]
)

EVALS = _schema(
    [
        (
            "evaluation",
            pa.string(),
            "id: hash over run, step, weights, mode, split digest, subset and code version",
        ),
        ("step", pa.int64(), "training step of the checkpoint (steps)"),
        ("weights", pa.string(), "ema or raw"),
        ("dataset", pa.string(), "name of the dataset"),
        ("split", pa.string(), "train, validation or test"),
        ("split_digest", pa.string(), "digest of the split's rows, hexadecimal"),
        ("limit", pa.int64(), "rows at most, from the first; 0 for all (examples)"),
        ("supervision_steps", pa.int32(), "supervision steps each row was given (steps)"),
        ("count", pa.int64(), "rows evaluated (examples)"),
        ("exact", pa.int64(), "rows with every cell right (examples)"),
        ("cells", pa.int64(), "labelled cells (cells)"),
        ("wrong_cells", pa.int64(), "labelled cells that are wrong (cells)"),
        ("q_halt_right", pa.int64(), "rows whose halting logit fits their rightness (examples)"),
        ("lm_loss", pa.float64(), "sum over rows of the mean cross-entropy over cells (nats)"),
        ("seconds", pa.float64(), "wall-clock time of inference, compilation included (s)"),
        (
            "code_version",
            pa.string(),
            "version of trm-lab and hash over the sources of trainer and evaluation",
        ),
        ("created_at", pa.timestamp("us", "UTC"), "when the evaluation ended (UTC)"),
        ("parts", pa.list_(pa.string()), "files of predictions that belong to it"),
    ]
)

PREDICTIONS = _schema(
    [
        ("evaluation", pa.string(), "id of the evaluation"),
        ("part", pa.string(), "file the row lies in"),
        ("row", pa.int64(), "row of the split, from 0"),
        ("group_index", pa.int32(), "base puzzle, as in puzzles.group_index"),
        ("augmentation", pa.int32(), "augmentation within the group; 0 is the original"),
        ("exact", pa.bool_(), "every labelled cell is right"),
        ("cells", pa.int32(), "labelled cells (cells)"),
        ("wrong_cells", pa.int32(), "labelled cells that are wrong (cells)"),
        ("steps", pa.int32(), "supervision steps run (steps)"),
        (
            "halt_step",
            pa.int32(),
            "first supervision step whose halting logit is above 0; NULL if none (steps)",
        ),
        ("q_halt_logit", pa.float32(), "halting logit after the last supervision step"),
        ("prediction", pa.list_(pa.uint8()), "predicted tokens, a cell each"),
    ]
)

TABLES = {"runs": RUNS, "train_metrics": TRAIN_METRICS, "evals": EVALS, "predictions": PREDICTIONS}


def comments(table: str) -> dict[str, str]:
    """Comment of every column of a table, the two of its folders included."""
    found = {field.name: (field.metadata or {}).get(b"comment", b"").decode() for field in TABLES[table]}
    return {**found, **PARTITION_COLUMNS}
