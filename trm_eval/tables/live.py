"""Tables that no evaluation writes.

`runs` and `train_metrics` from the run folders, `claims` from the package, the tokens of splits from datasets.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from trm_data.errors import DataError, DatasetNotFoundError, Note
from trm_data.loader.dataset import Dataset, open_dataset
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.tables.schema import CLAIMS, EXPERIMENTS, PUZZLE_TOKENS, STORED, no_rows
from trm_eval.tables.writer import token_lists
from trm_train.config.run import RunConfig, config_to_json, identity_hash
from trm_train.errors import ForeignRunError
from trm_train.experiments.registry import Experiment, load_experiments
from trm_train.experiments.setting import Setting
from trm_train.experiments.sweep import Sweep, sweep_experiments
from trm_train.runs.record import CONFIG_FILE, RunRecord, describe_differences, differences_of, read_records
from trm_train.runs.status import is_dead, read_status


def run_row(record: RunRecord, differs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a run's row in `runs`; `differs` is from `differences_of`."""
    return {
        "experiment_group": record.group,
        "scale": record.scale,
        "data": record.data,
        "identity": record.identity,
        "seed": record.config.seed,
        "dataset": record.config.data.label,
        "differs": describe_differences(differs),
        "label": record.label,
        "content_digest": record.content_digest,
        "config": _config_text(record.config),
        "total_steps": record.total_steps,
        "global_batch_size": record.config.data.global_batch_size,
        "created_at": datetime.fromisoformat(record.created_at),
        "versions": json.dumps(record.versions, sort_keys=True),
        "parameters": record.parameters,
        "training_flops": record.total_flops,
        "evaluation_flops": record.evaluation_flops,
    }


@lru_cache(10_000)
def _config_text(config: RunConfig) -> str:
    return json.dumps(config_to_json(config), sort_keys=True)


def run_rows(layout: Layout, folders: Sequence[Folder]) -> tuple[pa.Table, list[str | None]]:
    """Return the rows of `runs` of run folders, and for each folder why it has no row.

    The reason is a `Note` if the record is intact but of a version or architecture that this checkout does not have.
    """
    found = read_records(layout, folders)
    runs = [(folder, record) for folder, record in found if isinstance(record, RunRecord)]
    statuses = layout.store.each(read_status, [folder for folder, _ in runs])
    rows: list[dict[str, Any]] = []
    differ = differences_of([record for _, record in runs])
    for (folder, record), status, differs in zip(runs, statuses, differ, strict=True):
        row = {"experiment": record.experiment, "run": record.run, **run_row(record, differs)}
        if status is not None:
            row |= {
                "state": "stalled" if is_dead(status) else status.state,
                "step": status.step,
                "examples_per_s": status.examples_per_s,
                "train_seconds": status.seconds,
                "compile_seconds": status.compile_s,
                "heartbeat": datetime.fromisoformat(status.heartbeat),
                "loss": status.loss,
                "best_validation": status.exact_accuracy,
                "best_optimal_share": status.optimal_share,
                "host": status.host,
                "process": status.process,
            }
        rows.append({**row, "file": f"{folder.path}/{CONFIG_FILE}"})
    problems = [
        None
        if isinstance(record, RunRecord)
        else Note(record)
        if isinstance(record, ForeignRunError)
        else str(record)
        for _, record in found
    ]
    return pa.Table.from_pylist(rows, schema=STORED["runs"].append(pa.field("file", pa.string()))), problems


def experiment_table(sweeps: Iterable[Sweep] = ()) -> pa.Table:
    """Return all experiments and the points of sweeps, a row for each scale and data."""
    rows = [row for item in load_experiments().values() for row in _experiment_rows(item)]
    for item in sweep_experiments(sweeps).values():
        rows += _experiment_rows.__wrapped__(item)  # made for each query, so not cached
    return pa.Table.from_pylist(rows, schema=EXPERIMENTS)


@lru_cache(1_000)
def _experiment_rows(item: Experiment) -> list[dict[str, Any]]:
    """Return a row for each setting."""
    return [_experiment_row(item, setting, item.make(setting)) for setting in item.settings]


def _experiment_row(item: Experiment, setting: Setting, config: RunConfig) -> dict[str, Any]:
    alias_of, quantity = item.alias_of(setting), item.quantity
    return {
        "experiment": item.name,
        "experiment_group": item.group,
        "scale": setting.scale,
        "data": setting.data,
        "alias_of": alias_of,
        "runs_of": alias_of or item.runs_of or item.name,
        "identity": identity_hash(config),
        "dataset": config.data.label,
        "total_steps": config.total_steps,
        "varies": item.own(config),
        "quantity": None if quantity is None else quantity.name,
        "value": None if quantity is None else quantity.of(config),
        "unit": None if quantity is None else quantity.unit,
        "series": item.series or None,
        "supervision_steps": getattr(config.model, "halt_max_steps", None),
        "question": item.summary,
    }


MOST_BYTES = 1_000_000_000
"""Maximum size of a split's tokens in memory (bytes)."""
READ_AT_ONCE = 65_536


def token_table(layout: Layout, evals: pa.Table) -> tuple[pa.Table, list[str]]:
    """Return `PUZZLE_TOKENS` rows of every split in `evals` that is present and unchanged, and a line for each split
    that cannot be read or is too large.

    Args:
        layout: The root.
        evals: Table with the columns dataset, split and split_digest.
    """
    columns = (evals[name].to_pylist() for name in ("dataset", "split", "split_digest"))
    found, problems = [no_rows(PUZZLE_TOKENS)], list[str]()
    for name, split, digest in sorted(set(zip(*columns, strict=True))):
        try:
            entry = read_manifest(layout, name).splits.get(split)
            if entry is None or entry.digest != digest:
                continue
            dataset = open_dataset(name, layout, split)
            size = 2 * len(dataset) * dataset.sequence_length
            if size > MOST_BYTES:
                problems.append(
                    f"{name} ({split}): {size / 1e9:.1f} GB of tokens, of at most {MOST_BYTES / 1e9:.0f}: not in "
                    "puzzle_tokens; trm_data.open_dataset reads it"
                )
                continue
            found += _tables(dataset)
        except DatasetNotFoundError:
            continue  # its predictions remain, without puzzles
        except DataError as error:
            problems.append(str(error))
    return pa.concat_tables(found), problems


def _tables(dataset: Dataset) -> Generator[pa.Table, None, None]:
    for begin in range(0, len(dataset), READ_AT_ONCE):
        rows = np.arange(begin, min(begin + READ_AT_ONCE, len(dataset)))
        batch, picks, count = dataset.read(rows), dataset.groups.picks(rows), len(rows)
        facts = (dataset.name, dataset.split, dataset.split_digest)
        yield pa.table(
            [
                *(pa.array([fact] * count) for fact in facts),
                rows,
                picks.groups.astype(np.int32),
                picks.augmentations.astype(np.int32),
                *(token_lists(batch[name].astype(np.uint8)) for name in ("inputs", "labels")),
                np.full(count, dataset.manifest.grid_columns, np.int32),
            ],
            schema=PUZZLE_TOKENS,
        )


@cache
def claims_table() -> pa.Table:
    """Return the claims that ship with the package."""
    options = csv.ConvertOptions(column_types=CLAIMS, strings_can_be_null=True)
    with files("catalogs").joinpath("claims.csv").open("rb") as file:
        return csv.read_csv(file, convert_options=options).cast(CLAIMS)
