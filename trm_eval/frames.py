"""Predictions, traces and metrics of a run as lazy polars frames, from a local root or a bucket."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa

from trm_data.storage.digested import checked_files
from trm_data.storage.root import Layout, Root, resolve_root
from trm_eval.errors import ResultError
from trm_eval.tables.query import query_results
from trm_eval.tables.schema import LATE, NAMED_BY_EVALS, TABLES
from trm_eval.tables.writer import part_names_of, table_folder
from trm_train.metrics.table import ADDED, SCHEMA, SUM_OF, part_files
from trm_train.run.record import find_run, read_record
from trm_train.run.status import written_steps


def read_predictions(run: str, root: Root | None = None) -> pl.LazyFrame:
    """Every prediction of a run: a row per example and evaluation, of the newest evaluation of each request.

    The columns are those of the SQL table `predictions`: experiment, run, dataset and split say what a row is of.

    Args:
        run: A run's name or folder, or an experiment: the run that it defines.
        root: Folder of everything, `gs://bucket/prefix`, a layout or a store; else `$TRM_ROOT`, else `./trm`.

    Raises:
        ConfigError: There is no such run.
        ResultError: It was not evaluated yet, or a file of predictions is missing.
        CorruptFileError: A file of predictions has other bytes than were written.
    """
    layout = resolve_root(root)
    name = find_run(layout, run).name
    if not (found := _named(layout, name, "predictions")):
        raise ResultError(f"{name}: was not evaluated yet: trm-eval run {name}")
    return pl.concat(found)


def read_traces(run: str, root: Root | None = None) -> pl.LazyFrame:
    """What a run answers after every cycle, of the rows that `trm-eval run --traces N` was asked for.

    A row per example, supervision step and cycle. Latent states, where they were asked for:
    `np.frombuffer(row["latents"], "<f2").reshape(row["latent_shape"])`, [states, L, D], states as in `latent_names`.

    Args:
        run: A run's name or folder, or an experiment: the run that it defines.
        root: Folder of everything, `gs://bucket/prefix`, a layout or a store; else `$TRM_ROOT`, else `./trm`.

    Raises:
        ConfigError: There is no such run.
        ResultError: No evaluation of it has traces, or a file of them is missing.
        CorruptFileError: A file of traces has other bytes than were written.
    """
    layout = resolve_root(root)
    name = find_run(layout, run).name
    if not (found := _named(layout, name, "traces")):
        raise ResultError(f"{name}: no evaluation of it has traces: trm-eval run {name} --traces 10")
    return pl.concat(found)


def _named(layout: Layout, run: str, table: str) -> list[pl.LazyFrame]:
    """The rows of a table of each evaluation of a run that has some, oldest evaluation first."""
    parts, digests = NAMED_BY_EVALS[table]
    found = query_results(
        layout,
        f"SELECT experiment, dataset, split, evaluation, {parts}, {digests} FROM evals "
        f"WHERE run = ? AND {parts} IS NOT NULL ORDER BY created_at",
        [run],
    ).rows
    return [
        _parts(layout, table, experiment, run, part_names_of(*named))
        .filter(pl.col("evaluation") == evaluation)
        .select(*_named_as(experiment=experiment, run=run, dataset=dataset, split=split), pl.all())
        for experiment, dataset, split, evaluation, *named in found
    ]


def _named_as(**names: str) -> list[pl.Expr]:
    """A column of one value for each name."""
    return [pl.lit(value, pl.String).alias(column) for column, value in names.items()]


def _parts(layout: Layout, table: str, experiment: str, run: str, names: list[str]) -> pl.LazyFrame:
    folder = table_folder(layout, table, experiment, run)
    paths = checked_files(folder, names)
    for name, path in zip(names, paths, strict=True):
        if path is None:
            raise ResultError(f"{folder.where(name)}: is missing; evaluate again")
    late = LATE if table == "predictions" else ()
    return _with_late(_scan(paths), TABLES[table], late)


def read_train_metrics(run: str, root: Root | None = None) -> pl.LazyFrame:
    """The metric table of a run as it is, evaluated or not: a row per step and split, sums and counts beside the rates.

    The columns are those of the SQL table `train_metrics`.

    Args:
        run: A run's name or folder, or an experiment: the run that it defines.
        root: Folder of everything, `gs://bucket/prefix`, a layout or a store; else `$TRM_ROOT`, else `./trm`.

    Raises:
        ConfigError: There is no such run.
        CorruptFileError: A metric part has other bytes than were written, or is gone.
    """
    folder = find_run(resolve_root(root), run)
    record = read_record(folder)
    paths = part_files(folder, written_steps(folder))
    if not paths:
        empty = pl.from_arrow(SCHEMA.empty_table())
        assert isinstance(empty, pl.DataFrame)
        rows = empty.lazy()
    else:
        rows = pl.concat([_of_today(_scan([path])) for path in paths])
    return rows.select(*_named_as(experiment=record.experiment, run=record.run), pl.all(), *_rates())


def _rates() -> list[pl.Expr]:
    """The rates of the SQL table `train_metrics` (`catalogs/results.sql`), from the sums and counts."""

    def per(sum_column: str, count: pl.Expr) -> pl.Expr:
        return pl.col(sum_column) / pl.when(count != 0).then(count)

    count, slots, step_s = (pl.col(name) for name in ("count", "global_batch_size", "step_s"))
    variance = per("steps_squared_sum", count) - per("steps_sum", count) ** 2
    rates = {
        "accuracy": per("accuracy_sum", count),
        "exact_accuracy": per("exact_count", count),
        "q_halt_accuracy": per("q_halt_right_count", count),
        "mean_steps": per("steps_sum", count),
        "steps_std": variance.clip(lower_bound=0).sqrt(),
        "lm_loss": per("lm_loss_sum", slots),
        "q_halt_loss": per("q_halt_loss_sum", slots),
        "examples_per_s": per("global_batch_size", step_s),
        "data_wait": per("data_wait_s", step_s),
        "mfu": per("model_flops", step_s * pl.col("peak_flops_per_s")),
    }
    return [rate.alias(name) for name, rate in rates.items()]


def _scan(paths: Sequence[Path | None]) -> pl.LazyFrame:
    """The rows of these files: their paths are no patterns, and folders in them no columns."""
    return pl.scan_parquet([str(path) for path in paths], glob=False, hive_partitioning=False)


def _of_today(part: pl.LazyFrame) -> pl.LazyFrame:
    """A metric part under the names of today; columns that came later are null."""
    return _with_late(part.rename(SUM_OF, strict=False), SCHEMA, ADDED)


def _with_late(part: pl.LazyFrame, schema: pa.Schema, added: Sequence[str]) -> pl.LazyFrame:
    """A part with the columns of today; those that were added later are null."""
    there = part.collect_schema().names()
    kinds = pl.from_arrow(schema.empty_table())
    assert isinstance(kinds, pl.DataFrame)
    late = [pl.lit(None, kinds.schema[name]).alias(name) for name in added if name not in there]
    return part.with_columns(late).select(schema.names)
