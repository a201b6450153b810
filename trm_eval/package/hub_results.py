"""The results of a package as the Hugging Face hub reads them: `.eval_results/*.yaml` beside the model card.

Each file has one result with its protocol in `notes`: the hub wants variants of a benchmark in files of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from trm_data.storage.atomic import json_bytes

FOLDER = ".eval_results"
REPOSITORIES = {
    "sudoku-extreme": "sapientinc/sudoku-extreme",
    "maze-30x30-hard": "sapientinc/maze-30x30-hard-1k",
}
"""The published sets on the hub, by how names of our datasets begin."""
METRICS = ("exact_accuracy", "optimal_share")


def write_hub_results(folder: Path, evals: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write a file for each accuracy into `folder`/.eval_results; returns their names in the package.

    Args:
        folder: Of the package.
        evals: Rows of the view `evals`.
    """
    written: list[str] = []
    for row in evals:
        for metric in METRICS:
            if not row["count"] or row.get(metric) is None:
                continue
            name = f"{FOLDER}/{_plain(row['dataset'])}-{row['split']}-{metric}-{row['evaluation']}.yaml"
            (folder / FOLDER).mkdir(exist_ok=True)
            # JSON is YAML, and needs no writer of its own.
            (folder / name).write_bytes(json_bytes([_result(row, metric)]))
            written.append(name)
    return written


def _result(row: Mapping[str, Any], metric: str) -> dict[str, Any]:
    dataset = next(
        (hub for name, hub in REPOSITORIES.items() if row["dataset"].startswith(name)), row["dataset"]
    )
    made: datetime = row["created_at"]
    return {
        "dataset": {"id": dataset, "task_id": metric},
        "value": round(100 * row[metric], 4),
        "date": made.date().isoformat(),
        "source": {"name": "trm-lab"},
        "notes": protocol_of(row),
    }


def protocol_of(row: Mapping[str, Any]) -> str:
    """How an accuracy came about, in a line; from a row of the view `evals`."""
    samples = row["samples"] or 1
    said = [
        f"{metric_rows(row)} of the {row['split']} split of {row['dataset']} ({row['split_digest'][:12]})",
        f"{row['supervision_steps']} supervision steps",
        f"{samples} sample{'s' * (samples > 1)}"
        + (f", selected by {row['selection']}" if row["selection"] else ""),
        f"{row['precision'] or 'unknown'} precision",
        f"{row['weights']} weights",
        f"{row['latent_init']} initial latents",
    ]
    if row["network_calls"] is not None:
        said.append(f"{row['network_calls']:g} network calls a puzzle")
    if row["flops"] is not None:
        said.append(f"{row['flops']:.3g} FLOP a puzzle")
    return "; ".join(said)


def metric_rows(row: Mapping[str, Any]) -> str:
    """How many rows were tested."""
    return f"{row['count']:,} rows" + (" (a part)" if row["row_limit"] else "")


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)
