"""Exports a run as one folder for others: weights, configuration, results and a model card.

    config.json              the run's record
    model.safetensors        raw and averaged parameters, latents, puzzle table (`trm_train.checkpoint.tree`)
    README.md                model card of the Hugging Face hub
    .eval_results/*.yaml     each accuracy with its protocol, as the hub reads it

The folder is a run wherever a command takes one: evaluations, predictions, `--init-from`. It never holds puzzles.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from trm_data.errors import DatasetNotFoundError, not_written
from trm_data.manifest import Manifest, read_manifest
from trm_data.show.template import render
from trm_data.storage.atomic import json_bytes
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.errors import EvalError
from trm_eval.evaluation.prepare import choose_step
from trm_eval.tables.query import query_results
from trm_train.checkpoint.manager import export_weights, restore_weights
from trm_train.checkpoint.tree import FILE, weights_tree
from trm_train.config.run import effective_identity
from trm_train.experiments.dataset import is_named
from trm_train.runs.record import CONFIG_FILE, RunRecord, read_record
from trm_train.runs.resume import check_same_run
from trm_train.state import abstract_weights

CARD = "README.md"
HUB_RESULTS = ".eval_results"
METRICS = ("exact_accuracy", "optimal_share")
EVALUATIONS = """
SELECT dataset, split, row_limit, weights, how, supervision_steps, count, exact_accuracy,
    wilson_low(exact_count, count) AS exact_low, wilson_high(exact_count, count) AS exact_high, cell_accuracy,
    optimal_share, samples, selection, precision, latent_init, network_calls, flops, split_digest, evaluation,
    created_at
FROM evals WHERE run = ? AND step = ? ORDER BY split, weights, supervision_steps, how, row_limit
"""


@dataclass(frozen=True)
class Exported:
    """Result of an export.

    Attributes:
        run: Name of the run.
        step: Training step of its weights.
        folder: The folder.
        evaluations: Number of evaluations of these weights.
        size_bytes: Size of its files.
        files: Names of its files.
    """

    run: str
    step: int
    folder: Path
    evaluations: int
    size_bytes: int
    files: tuple[str, ...]


def export_run(
    layout: Layout, run: Folder, out: Path, *, checkpoint: str = "last", license: str = ""
) -> Exported:
    """Write a run into a new folder, atomically.

    Args:
        layout: Root with the results and the dataset of the run.
        run: The run's folder.
        out: Folder to write.
        checkpoint: A step, `last` or `best`.
        license: Licence of the weights, for the card; empty for none.

    Raises:
        EvalError: The folder exists or cannot be written, or the run has no such checkpoint.
        CheckpointError: The checkpoint is damaged.
    """
    record, step = read_record(run), choose_step(run, checkpoint)
    if out.exists():
        raise EvalError(f"{out}: the folder exists. Choose another name.")
    _, weights = abstract_weights(record.config, record.input_spec)
    tree, meta = restore_weights(run, step, weights_tree(weights))
    check_same_run(record, meta, run.place)
    found = query_results(layout, EVALUATIONS, [record.run, step])
    evals = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    temporary = out.with_name(f".tmp-{out.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        (temporary / CONFIG_FILE).write_bytes(run.read(CONFIG_FILE) or b"")
        export_weights(temporary / FILE, tree, meta)
        datasets = datasets_of(layout, record)
        card = render(
            "trm_eval",
            "card.md",
            record=record,
            step=step,
            license=license,
            tags=[
                "tiny-recursive-model",
                "jax",
                *sorted({each["kind"] for each in datasets if each["kind"]}),
            ],
            results=[row for row in evals if row["count"]],
            datasets=datasets,
            weights=FILE,
            configuration=json.dumps(effective_identity(record.config), indent=1, sort_keys=True),
        )
        (temporary / CARD).write_text(card, "utf-8")
        write_hub_results(temporary, evals)
        files = [path for path in sorted(temporary.rglob("*")) if path.is_file()]
        names = tuple(path.relative_to(temporary).as_posix() for path in files)
        size = sum(path.stat().st_size for path in files)
        temporary.rename(out)
    except OSError as error:
        raise EvalError(not_written(out, error, "try again")) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Exported(record.run, step, out, len(evals), size, names)


def find_manifest(layout: Layout, name: str) -> Manifest | None:
    """Return the manifest of a dataset; None if the root does not have the dataset."""
    try:
        return read_manifest(layout, name)
    except DatasetNotFoundError:
        return None


def build_command(name: str, manifest: Manifest | None) -> str:
    """Return the command that builds a dataset; without a manifest, only for a named dataset, otherwise empty."""
    if manifest is not None:
        return manifest.spec.options.build_command(name, manifest.spec)
    return f"trm-data build {name}" if is_named(name) else ""


def datasets_of(layout: Layout, record: RunRecord) -> list[dict[str, str]]:
    """Return name, kind, content digest and build command of each dataset of a run, as far as this root knows."""
    found: list[dict[str, str]] = []
    only = len(record.config.data.names) == 1
    for name in record.config.data.names:
        manifest = find_manifest(layout, name)
        if manifest is not None and only and manifest.content_digest != record.content_digest:
            manifest = None  # another dataset with this name
        digest = record.content_digest if only else "" if manifest is None else manifest.content_digest
        source = "" if manifest is None else manifest.spec.source.name
        found.append(
            {
                "name": name,
                "kind": "" if manifest is None else manifest.kind,
                "content_digest": digest,
                "source": "" if source == "generated" else source,
                "command": build_command(name, manifest),
            }
        )
    return found


def write_hub_results(folder: Path, evals: Sequence[Mapping[str, Any]]) -> None:
    """Write a file for each accuracy that is not on training data into `folder`/.eval_results.

    A result is one of the dataset that it was measured on, never of a published one.

    Args:
        folder: Folder of the export.
        evals: Rows of `EVALUATIONS`.
    """
    for row in evals:
        for metric in METRICS:
            if not row["count"] or row.get(metric) is None or row["split"] == "train":
                continue
            dataset = re.sub(r"[^A-Za-z0-9._-]", "-", row["dataset"])
            name = f"{dataset}-{row['split']}-{metric}-{row['evaluation']}.yaml"
            (folder / HUB_RESULTS).mkdir(exist_ok=True)
            # JSON is valid YAML, so no YAML writer is needed.
            (folder / HUB_RESULTS / name).write_bytes(json_bytes([_result(row, metric)]))


def _result(row: Mapping[str, Any], metric: str) -> dict[str, Any]:
    made: datetime = row["created_at"]
    return {
        "dataset": {"id": row["dataset"], "task_id": metric},
        "value": round(100 * row[metric], 4),
        "date": made.date().isoformat(),
        "source": {"name": "trm-lab"},
        "notes": protocol_of(row),
    }


def protocol_of(row: Mapping[str, Any]) -> str:
    """Return a line that describes how an accuracy was measured, from a row of `EVALUATIONS`."""
    rows = f"{row['count']:,} rows" + (" (a part)" if row["row_limit"] else "")
    parts = [
        f"{rows} of the {row['split']} split of {row['dataset']} ({row['split_digest'][:12]})",
        f"{row['supervision_steps']} supervision steps",
        row["how"],
        f"{row['precision'] or 'unknown'} precision",
        f"{row['weights']} weights",
        f"{row['latent_init']} initial latents",
    ]
    if row["network_calls"] is not None:
        parts.append(f"{row['network_calls']:g} network calls a puzzle")
    if row["flops"] is not None:
        parts.append(f"{row['flops']:.3g} FLOP a puzzle")
    return "; ".join(parts)
