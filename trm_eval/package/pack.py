"""Packs a run for sharing: `trm-eval export`. Reads top to bottom in `pack_run`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trm_data.errors import not_written
from trm_data.show.template import render
from trm_data.storage.atomic import json_bytes
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.errors import PackageError
from trm_eval.evaluation.checkpoints import choose_step
from trm_eval.package.contents import (
    CARD,
    CONFIG,
    DATASET,
    FILES,
    METRICS,
    PACKAGE_FILE,
    RAW,
    WEIGHTS,
    Package,
    Training,
    packed_file,
)
from trm_eval.package.hub import write_hub_results
from trm_eval.package.recipe import dataset_recipes
from trm_eval.package.weights import Tree, arrays_of, tree_of
from trm_eval.statistics.intervals import wilson
from trm_eval.tables.query import query_results
from trm_eval.tables.schema import EVALS, NAMED_BY_EVALS, PARTITION_COLUMNS, TABLES
from trm_train.checkpoint.manager import restore_weights
from trm_train.checkpoint.tree import weights_tree
from trm_train.config.run import effective_identity
from trm_train.mesh.fingerprint import fingerprints
from trm_train.metrics.table import read_metrics
from trm_train.runs.record import RunRecord, read_record
from trm_train.runs.resume import check_same_run
from trm_train.runs.status import read_status, written_steps
from trm_train.state import abstract_weights
from trm_train.weights.files import write_npz

HERE = "."
"""Default argument for `trm-eval import` in a card: the package's own folder."""


@dataclass(frozen=True)
class Packed:
    """Result of packing a run.

    Attributes:
        run: Name of the run.
        step: Training step of its weights.
        folder: Folder of the package.
        digest: Digest of everything in it except the card.
        evaluations: Number of its rows of `evals`.
        size_bytes: Total size of its files.
        files: Names of its files.
    """

    run: str
    step: int
    folder: Path
    digest: str
    evaluations: int
    size_bytes: int
    files: tuple[str, ...]


def pack_run(
    layout: Layout,
    run: Folder,
    out: Path,
    *,
    checkpoint: str = "last",
    place: str = HERE,
    license: str = "",
) -> Packed:
    """Write a package of a run into a new folder, atomically.

    Args:
        layout: Root with the results and the dataset of the run.
        run: The run's folder.
        out: Folder to write.
        checkpoint: A step, `last` or `best`.
        place: Reference that the card tells readers to import.
        license: Licence of the weights, for the card; empty for none.

    Raises:
        PackageError: The folder exists or cannot be written, or the results of the run are damaged.
        EvalError: The run has no such checkpoint.
        CheckpointError: The checkpoint is damaged.
        CorruptFileError: A file of results or metrics has changed since it was written.
    """
    record = read_record(run)
    step = choose_step(run, checkpoint)
    if out.exists():
        raise PackageError(f"--out {out}: already exists; choose another folder")
    tree, shapes = _restore(run, record, step)
    prints = fingerprints(tree)
    arrays = arrays_of(record, jax.device_get(tree))
    if fingerprints(tree_of(record, arrays, shapes)) != prints:
        raise PackageError(f"{run}: the weights at step {step} differ after packing and reading")
    evals, tables = _results(layout, run, record, step)
    datasets = dataset_recipes(layout, record)
    temporary = out.with_name(f".tmp-{out.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        _write_files(temporary, run.read(CONFIG) or b"", datasets, arrays, tables)
        card = model_card(
            record,
            step=step,
            parameters=record.parameters,
            evals=evals,
            datasets=datasets,
            place=place,
            license=license,
        )
        (temporary / CARD).write_text(card, "utf-8")
        write_hub_results(temporary, evals)
        package = Package(
            run=record.run,
            step=step,
            code_version=version("trm-lab"),
            training=_training(run),
            fingerprints=prints,
            files={name: packed_file(temporary / name) for name in FILES if (temporary / name).is_file()},
            card_sha256=packed_file(temporary / CARD).sha256,
        )
        (temporary / PACKAGE_FILE).write_bytes(package.to_bytes())
        sizes = {
            path.relative_to(temporary).as_posix(): path.stat().st_size
            for path in sorted(temporary.rglob("*"))
            if path.is_file()
        }
        temporary.rename(out)
    except OSError as error:
        raise PackageError(not_written(out, error, "try again")) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    rows = tables["results/evals.parquet"].num_rows
    return Packed(record.run, step, out, package.digest, rows, sum(sizes.values()), tuple(sizes))


def _write_files(
    folder: Path,
    config: bytes,
    datasets: list[dict[str, Any]],
    arrays: dict[str, dict[str, Any]],
    tables: dict[str, pa.Table],
) -> None:
    """Write all files that a package describes, except the card."""
    (folder / "results").mkdir(parents=True)
    (folder / CONFIG).write_bytes(config)
    for name, found in arrays.items():
        write_npz(folder / name, found)
    (folder / DATASET).write_bytes(json_bytes({"datasets": datasets}))
    for name, table in tables.items():
        _write_table(folder / name, table)


def _restore(run: Folder, record: RunRecord, step: int) -> tuple[Tree, Tree]:
    """Return the weights of a checkpoint, raw and averaged, and their shapes."""
    _, weights = abstract_weights(record.config, record.input_spec)
    shapes = weights_tree(weights)
    tree, meta = restore_weights(run, step, shapes)
    check_same_run(record, meta, run.place)
    return tree, shapes


def _training(run: Folder) -> Training | None:
    status = read_status(run)
    if status is None:
        return None
    return Training(
        status.seconds, status.compile_s, status.examples_per_s, status.exact_accuracy, status.heartbeat
    )


def _results(
    layout: Layout, run: Folder, record: RunRecord, step: int
) -> tuple[list[dict[str, Any]], dict[str, pa.Table]]:
    """Return the rows of `evals` for the packed weights, and the tables of the package by file."""
    named = {column for columns in NAMED_BY_EVALS.values() for column in columns}  # files not packed
    columns = [*PARTITION_COLUMNS, *(name for name in EVALS.names if name not in named)]
    found = query_results(
        layout,
        f"SELECT {', '.join(columns)} FROM evals WHERE run = ? ORDER BY step, created_at, evaluation",
        [record.run],
        as_table=True,
    )
    assert found.table is not None
    evals = found.table.cast(_schema("evals", columns))
    depth = query_results(
        layout,
        "SELECT * FROM depth WHERE run = ? ORDER BY step, evaluation, depth",
        [record.run],
        as_table=True,
    ).table
    assert depth is not None
    metrics = read_metrics(run, written_steps(run))
    metrics = metrics.filter(pc.field("step") <= step)
    tables = {"results/evals.parquet": evals, "results/depth.parquet": depth}
    tables |= {"results/evals.json": evals, "results/depth.json": depth, METRICS: metrics}
    rates = query_results(
        layout,
        "SELECT dataset, split, row_limit, weights, how, supervision_steps, count, exact_count, exact_accuracy, "
        "cell_accuracy, optimal_share, samples, selection, precision, latent_init, network_calls, flops, split_digest, "
        "evaluation, created_at FROM evals WHERE run = ? AND step = ? "
        "ORDER BY split, weights, supervision_steps, how, row_limit",
        [record.run, step],
    )
    return [dict(zip(rates.columns, row, strict=True)) for row in rates.rows], tables


def _schema(table: str, columns: list[str]) -> pa.Schema:
    """Return the schema of some columns of a table, partition columns included, with comments."""
    folders = {
        name: pa.field(name, pa.string(), metadata={"comment": text})
        for name, text in PARTITION_COLUMNS.items()
    }
    return pa.schema([folders[name] if name in folders else TABLES[table].field(name) for name in columns])


def _write_table(path: Path, table: pa.Table) -> None:
    """Write a table as Parquet or JSON, depending on the suffix."""
    if path.suffix == ".json":
        path.write_text(json.dumps(table.to_pylist(), indent=1, default=str) + "\n", "utf-8")
    else:
        pq.write_table(table, path, compression="zstd")


def model_card(
    record: RunRecord,
    *,
    step: int,
    parameters: int | None,
    evals: Sequence[Mapping[str, Any]],
    datasets: Sequence[Mapping[str, Any]],
    place: str = HERE,
    license: str = "",
) -> str:
    """Return the model card: what the run is, its test results, how to load it, and how to build its dataset.

    Args:
        record: Record of the run.
        step: Training step of the weights.
        parameters: Number of trained parameters of the network, without the puzzle embedding; None if unknown.
        evals: Rows of the view `evals` for these weights.
        datasets: Content of `dataset.json`.
        place: Argument for `trm-eval import`: `hf:OWNER/NAME`, or the package's own folder.
        license: Identifier of the weights' licence; empty leaves it to the person who shares them.
    """
    kinds = sorted({str(dataset["kind"]) for dataset in datasets if dataset["kind"]})
    scored = [row for row in evals if row["count"]]
    return render(
        "trm_eval",
        "card.md",
        record=record,
        step=step,
        parameters=parameters,
        license=license,
        tags=["tiny-recursive-model", "jax", *kinds],
        index=_index(record, kinds, scored) if evals else None,
        results=[(row, wilson(row["exact_count"], row["count"])) for row in scored],
        place=place,
        datasets=datasets,
        weights=WEIGHTS,
        raw=RAW,
        configuration=json.dumps(effective_identity(record.config), indent=1, sort_keys=True),
    )


def _index(record: RunRecord, kinds: list[str], scored: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the results in the hub's format."""
    task = kinds[0] if kinds else "puzzles"
    results = [
        {
            "task": {"type": task, "name": task},
            "dataset": {"type": row["dataset"], "name": row["dataset"], "split": row["split"]},
            "metrics": [
                {
                    "type": name,
                    "name": f"{name.replace('_', ' ')} ({row['weights']} weights, {row['how']})",
                    "value": row[name],
                }
                for name in ("exact_accuracy", "cell_accuracy")
                if row[name] is not None
            ],
        }
        for row in scored
    ]
    return [{"name": record.run, "results": results}]
