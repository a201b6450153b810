"""Metrics files as polars frames: sums and counts, plus the rates of the SQL table `train_metrics`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa

from trm_train.metrics.table import ADDED, SCHEMA, SUM_OF


def metrics_frame(
    paths: Sequence[Path], *, experiment: str, run: str, by_dataset: bool = False
) -> pl.LazyFrame:
    """Return the metric table of a run: a row per step and split, with the columns of the SQL table `train_metrics`.

    Args:
        paths: Parts of the table, in order.
        experiment: Experiment of the run.
        run: Name of the run.
        by_dataset: Also return the rows of each dataset of a mixture, named by the column `dataset`.
    """
    if paths:
        rows = pl.concat([_of_today(scan_parts([path])) for path in paths])
    else:
        empty = pl.from_arrow(SCHEMA.empty_table())
        assert isinstance(empty, pl.DataFrame)
        rows = empty.lazy()
    if not by_dataset:
        rows = rows.filter(pl.col("dataset").is_null())
    return rows.select(*constants(experiment=experiment, run=run), pl.all(), *_rates())


def constants(**values: str) -> list[pl.Expr]:
    """Return a constant column for each name."""
    return [pl.lit(value, pl.String).alias(column) for column, value in values.items()]


def scan_parts(paths: Sequence[Path | None]) -> pl.LazyFrame:
    """Scan Parquet files; special characters in their paths are taken literally."""
    return pl.scan_parquet([str(path) for path in paths], glob=False, hive_partitioning=False)


def with_late_columns(part: pl.LazyFrame, schema: pa.Schema, added: Sequence[str]) -> pl.LazyFrame:
    """Return a part with the columns of a schema; columns added by a later version are null."""
    there = part.collect_schema().names()
    kinds = pl.from_arrow(schema.empty_table())
    assert isinstance(kinds, pl.DataFrame)
    late = [pl.lit(None, kinds.schema[name]).alias(name) for name in added if name not in there]
    return part.with_columns(late).select(schema.names)


def _of_today(part: pl.LazyFrame) -> pl.LazyFrame:
    """Return a part of any version with the present column names."""
    return with_late_columns(part.rename(SUM_OF, strict=False), SCHEMA, ADDED)


def _rates() -> list[pl.Expr]:
    """Return the rates of the SQL table `train_metrics` (`catalogs/results.sql`), computed from sums and counts."""

    def per(sum_column: str, count: pl.Expr) -> pl.Expr:
        return pl.col(sum_column) / pl.when(count != 0).then(count)

    count, slots, step_s = (pl.col(name) for name in ("count", "global_batch_size", "step_s"))
    variance = per("steps_squared_sum", count) - per("steps_sum", count) ** 2
    rates = {
        "accuracy": per("accuracy_sum", count),
        "exact_accuracy": per("exact_count", count),
        "q_halt_accuracy": per("q_halt_right_count", count),
        "optimal_share": per("optimal_count", count),
        "mean_steps": per("steps_sum", count),
        "steps_std": variance.clip(lower_bound=0).sqrt(),
        "lm_loss": per("lm_loss_sum", slots),
        "q_halt_loss": per("q_halt_loss_sum", slots),
        "examples_per_s": per("global_batch_size", step_s),
        "data_wait": per("data_wait_s", step_s),
        "mfu": per("model_flops", step_s * pl.col("peak_flops_per_s")),
    }
    return [rate.alias(name) for name, rate in rates.items()]
