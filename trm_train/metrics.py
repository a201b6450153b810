"""The table `train_metrics`: one row per step and split, in Parquet files (parts) in the run's `metrics/` folder.

A run on a mixture also has a row for each of its datasets, named by the column `dataset`. In the total row, and in all
rows of other runs, that column is NULL.

The name of a part contains its steps and the digest of its bytes. A part holds the steps since the previous part; one
is written about once a minute, and one just before each checkpoint. So no part spans a checkpoint. A run that resumes
from step t deletes the parts beyond t and writes the same rows again. The table has only sums and counts; readers
divide, as the polars frames do that hold sums, counts and the rates of the SQL table. Parts of format 1 have no digest,
and name each sum after its rate; they are read under the present names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trm_data.errors import CorruptFileError
from trm_data.storage.atomic import checked_files, digest_of, one_of_each, stem_of, write_digested
from trm_data.storage.store import Check, Folder, no_check
from trm_train.errors import TrainError

FOLDER = "metrics"
MANY_PARTS = 16
"""Number of parts, each of 15 minutes of training, from which they are merged when the run ends or resumes."""
ATTEMPTS = 3
"""Attempts to list and read the parts, which a concurrent merge may replace."""
PART_STEM = re.compile(r"[0-9]{9}-([0-9]{9})")

_COLUMNS: list[tuple[str, pa.DataType, str]] = [
    ("step", pa.int64(), "optimizer steps taken, this one included (steps)"),
    ("split", pa.string(), "train: the slots of this step; validation: the whole split, EMA weights"),
    (
        "rows_digest",
        pa.int64(),
        "of the rows that this step was given, in their order (32 bits): equal where the rows are, on any devices",
    ),
    ("rows_loaded", pa.int64(), "rows taken by slots that had halted, since the start (examples)"),
    ("global_batch_size", pa.int32(), "slots that the loss sums are over (examples)"),
    ("count", pa.int64(), "slots with labels that halted at this step, or rows evaluated (examples)"),
    ("accuracy_sum", pa.float64(), "sum over count of the share of cells that are right (examples)"),
    ("exact_count", pa.int64(), "of count, those with every cell right (examples)"),
    ("q_halt_right_count", pa.int64(), "of count, those whose halting logit fits their rightness (examples)"),
    ("steps_sum", pa.int64(), "sum over count of supervision steps spent (steps)"),
    ("steps_squared_sum", pa.int64(), "sum over count of the square of supervision steps spent (steps^2)"),
    ("lm_loss_sum", pa.float64(), "sum over all slots of the mean cross-entropy over cells (nats)"),
    ("q_halt_loss_sum", pa.float64(), "sum over all slots of the halting cross-entropy (nats)"),
    ("lr", pa.float64(), "learning rate of the network at this step"),
    (
        "seconds",
        pa.float64(),
        "wall-clock time of training over all starts of the run, compilation aside (s)",
    ),
    ("grad_norm", pa.float64(), "Euclidean norm of the gradient of the parameters, before clipping"),
    ("update_norm", pa.float64(), "Euclidean norm of the change of the parameters; 0 where it was skipped"),
    ("loss_scale", pa.float64(), "what the next loss is multiplied by; NULL but for float16"),
    (
        "skipped_count",
        pa.int64(),
        "steps so far that overflowed and taught nothing; NULL but for float16 (steps)",
    ),
    ("step_s", pa.float64(), "wall-clock time of this step, validation and checkpoints aside (s)"),
    ("data_wait_s", pa.float64(), "of step_s, time spent waiting for a batch (s)"),
    ("model_flops", pa.float64(), "floating-point operations of this step, counted from the shapes (FLOP)"),
    (
        "peak_flops_per_s",
        pa.float64(),
        "what the devices can do at most; NULL where nothing is known of them (FLOP/s)",
    ),
    (
        "device_memory_bytes",
        pa.int64(),
        "most that a device has held since the process began; NULL where it does not say, as on CPU (B)",
    ),
    (
        "halted_slots",
        pa.int64(),
        "slots that halted at this step, with labels or without; NULL of validation and of older rows (examples)",
    ),
    (
        "optimal_count",
        pa.int64(),
        "rows with an answer as good as the label; NULL of training, and of puzzles with one right answer (examples)",
    ),
    (
        "dataset",
        pa.string(),
        "dataset of a mixture whose slots or rows these are; NULL where they are all of the step",
    ),
]
SCHEMA = pa.schema([pa.field(name, kind, metadata={"comment": text}) for name, kind, text in _COLUMNS])

SUM_OF = {
    "accuracy": "accuracy_sum",
    "exact_accuracy": "exact_count",
    "q_halt_accuracy": "q_halt_right_count",
    "steps": "steps_sum",
    "steps_squared": "steps_squared_sum",
    "lm_loss": "lm_loss_sum",
    "q_halt_loss": "q_halt_loss_sum",
    "skipped": "skipped_count",
    "optimal": "optimal_count",
}
"""Column of each metric that devices and format 1 name after its rate."""

ADDED = (
    "steps_squared_sum",
    "grad_norm",
    "update_norm",
    "loss_scale",
    "skipped_count",
    "step_s",
    "data_wait_s",
    "model_flops",
    "peak_flops_per_s",
    "device_memory_bytes",
    "rows_digest",
    "halted_slots",
    "optimal_count",
    "dataset",
)
"""Columns that are missing in parts of earlier runs; read as NULL."""


CLOCKED = ("seconds", "step_s", "data_wait_s", "device_memory_bytes")
"""Columns that depend on the machine and the time; all others are reproducible."""


@dataclass(frozen=True)
class Part:
    """Rows of the steps `first_step` to `last_step`. If first > last, the rows belong to `last_step`: no new step."""

    first_step: int
    last_step: int
    rows: list[dict[str, Any]]


class MetricTable:
    """Collects rows and writes them in parts.

    Attributes:
        rows_loaded: Number of rows that the slots have loaded, those of the next step included.
        seconds: Training time of earlier starts, up to the step that the run resumes from (s).
        scores: Exact accuracy of their validations, by step; None without labelled rows.

    Args:
        run: The run's folder.
        start_step: Step that the run resumes from; parts beyond it are deleted.
    """

    def __init__(self, run: Folder, start_step: int = 0) -> None:
        self.folder, self._run = run.within(FOLDER), run
        self._from = start_step
        self._rows: list[dict[str, Any]] = []
        self._parts: list[Part] = []
        self.rows_loaded = 0
        self.seconds = 0.0
        self.scores: dict[int, float | None] = {}
        self.folder.store.remove_temporary(self.folder.path)
        for part in reversed(
            _parts_of_stems(run.within(FOLDER).names("*.parquet"))
        ):  # newest first, so that readers find no gap
            if _last_step(part) > start_step:
                self.folder.delete(part)
        if start_step:
            every = totals(read_metrics(run, partial=True)).to_pylist()
            rows = [row for row in every if row["split"] == "train"]
            validated = [row for row in every if row["split"] == "validation"]
            self.scores = {
                row["step"]: row["exact_count"] / row["count"] if row["count"] else None for row in validated
            }
            # Slots that load a row at the next step; older rows count only labelled slots.
            halted = [row["count"] if row["halted_slots"] is None else row["halted_slots"] for row in rows]
            self.rows_loaded = max(
                (row["rows_loaded"] + n for row, n in zip(rows, halted, strict=True)), default=0
            )
            self.seconds = max((row["seconds"] for row in rows), default=0.0)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row; its keys are column names, or metrics named after their rates."""
        named = {SUM_OF.get(name, name): value for name, value in row.items()}
        if unknown := sorted(named.keys() - set(SCHEMA.names)):
            raise TrainError(
                f"train_metrics: no column for the metric {', '.join(map(repr, unknown))}. "
                "Add it to the schema in trm_train/metrics.py."
            )
        self._rows.append(named)

    def take_part(self, step: int) -> None:
        """Make a part of the rows since the last one, all of steps up to `step`; `write_parts` writes it."""
        if self._rows:
            self._parts.append(Part(self._from + 1, step, self._rows))
            self._from, self._rows = step, []

    def write_parts(self) -> None:
        """Write the parts not written yet; rows without a new step are appended to the part that ends there."""
        while self._parts:
            write_part(self._run, self._parts[0])
            del self._parts[0]


def write_part(run: Folder, part: Part) -> None:
    """Write a part of a run; rows without a new step are appended to the part that ends there."""
    folder, table = run.within(FOLDER), pa.Table.from_pylist(part.rows, schema=SCHEMA)
    stem, before = f"{part.first_step:09d}-{part.last_step:09d}", None
    if part.first_step > part.last_step:
        before = next(name for name in part_names(run) if _last_step(name) == part.last_step)
        (path,) = checked_files(folder, [before])
        table = pa.concat_tables([of_today(pq.read_table(path)), table])
        stem = stem_of(before)
    name = write_digested(folder, stem, lambda path: pq.write_table(table, path, compression="zstd"))
    if before not in (None, name):
        folder.delete(before)


def part_names(run: Folder) -> list[str]:
    """Return the names of a run's parts in its `metrics/` folder, by step."""
    return current_parts(run.within(FOLDER).names("*.parquet"))


def current_parts(names: Iterable[str]) -> list[str]:
    """Return the parts among the names of files, by step.

    Parts whose steps are in another part are excluded: they were merged into it and are about to be deleted.
    """
    found: list[str] = []
    end = 0
    for name in sorted(_parts_of_stems(names), key=lambda name: (_steps(name)[0], -_steps(name)[1])):
        if _last_step(name) > end:
            found.append(name)
            end = _last_step(name)
    return found


def _parts_of_stems(names: Iterable[str]) -> list[str]:
    return one_of_each(name for name in names if PART_STEM.fullmatch(stem_of(name)))


def missing_steps(parts: Sequence[str], last: int = 0) -> str:
    """Return the steps that are in no part, as text; empty if every step up to the last one is there.

    Args:
        parts: Names of a run's parts, by step.
        last: Step up to which the run reports that its metrics are written.
    """
    gaps: list[str] = []
    end = 0
    bounds = [_steps(part) for part in parts]
    for first, stop in [*bounds, (last + 1, last)]:
        if first > end + 1:
            gaps.append(f"{end + 1:,}" if first == end + 2 else f"{end + 1:,} to {first - 1:,}")
        end = max(end, stop)
    return ", ".join(gaps)


def part_files(run: Folder, last: int = 0, *, partial: bool = False) -> list[Path]:
    """Return local, verified files of a run's parts, by step.

    Args:
        run: The run's folder.
        last: Step up to which the run reports that its metrics are written.
        partial: Accept missing parts.
    """
    files: dict[str, Path | None] = {}
    steps = ""
    for _ in range(ATTEMPTS):
        names = part_names(run)
        files = dict(zip(names, checked_files(run.within(FOLDER), names), strict=True))
        there = [name for name, path in files.items() if path is not None]
        steps = missing_steps(there, max([last, *map(_last_step, names)]))
        if len(there) == len(names) and not steps:
            break
    if not partial and steps:
        raise CorruptFileError(
            f"{run.where(FOLDER)}: the rows of steps {steps} are missing: a part is missing. Restore it"
        )
    return [path for path in files.values() if path is not None]


def merge_many(run: Folder, last: int | None, check: Check = no_check) -> None:
    """Merge consecutive parts of a run if there are many, and delete leftovers of an interrupted merge.

    Args:
        run: The run's folder.
        last: Merge no part beyond this step, because a run that resumes from it deletes such parts. None for no limit.
        check: Called before anything is deleted.
    """
    names = run.within(FOLDER).names("*.parquet")
    for name in {*_parts_of_stems(names)} - {*current_parts(names)}:
        check()
        run.within(FOLDER).delete(name)
    merges: list[list[str]] = []
    for name in part_names(run):
        first, end = _steps(name)
        if digest_of(name) is None or (last is not None and end > last):
            continue
        if merges and _last_step(merges[-1][-1]) + 1 == first:
            merges[-1].append(name)
        else:
            merges.append([name])
    for merge in merges:
        if len(merge) >= MANY_PARTS:
            _merge_parts(run, merge, check)


def _merge_parts(run: Folder, names: Sequence[str], check: Check) -> None:
    """Write consecutive parts as one, verify it, then delete them. After a kill, the merged part is valid."""
    folder = run.within(FOLDER)
    tables: list[pa.Table] = []
    for name, path in zip(names, checked_files(folder, names, again=True), strict=True):
        if path is None:
            raise CorruptFileError(f"{folder.where(name)}: is missing. Restore it")
        table = pq.ParquetFile(path).read()
        if unknown := set(table.column_names) - {*SCHEMA.names, *SUM_OF}:
            raise CorruptFileError(
                f"{folder.where(name)}: has columns that this version does not know ({', '.join(sorted(unknown))}); "
                "upgrade trm-lab"
            )
        tables.append(of_today(table))
    rows = pa.concat_tables(tables).cast(SCHEMA)
    stem = f"{_steps(names[0])[0]:09d}-{_last_step(names[-1]):09d}"
    written = write_digested(folder, stem, lambda path: pq.write_table(rows, path, compression="zstd"))
    (path,) = checked_files(folder, [written], again=True)
    if path is None or not pq.ParquetFile(path).read().equals(rows):
        folder.delete(written)
        raise CorruptFileError(
            f"{folder.where(written)}: does not hold the rows of its parts; nothing was removed"
        )
    check()
    for name in reversed(names):
        folder.delete(name)


def read_metrics(run: Folder, last: int = 0, *, partial: bool = False) -> pa.Table:
    """Return all rows of a run's metric table, by step.

    Args:
        run: The run's folder.
        last: Step up to which the run reports that its metrics are written.
        partial: Accept missing parts.
    """
    tables: list[pa.Table] = []
    for path in part_files(run, last, partial=partial):
        try:
            tables.append(of_today(pq.read_table(path)))
        except (pa.ArrowException, UnicodeDecodeError, KeyError) as error:  # format 1 has no digest
            raise CorruptFileError(f"{path}: cannot be read ({error}). Restore it from a copy") from error
    return pa.concat_tables(tables) if tables else SCHEMA.empty_table()


def totals(table: pa.Table) -> pa.Table:
    """Return the total rows, without those of each dataset of a mixture."""
    return table.filter(pc.field("dataset").is_null())


def of_today(table: pa.Table) -> pa.Table:
    """Return a part of any format with the present column names."""
    named = table.rename_columns([SUM_OF.get(name, name) for name in table.column_names])
    for name in ADDED:
        if name not in named.column_names:
            named = named.append_column(SCHEMA.field(name), pa.nulls(len(named), SCHEMA.field(name).type))
    return named.select(SCHEMA.names)


def _last_step(part: str) -> int:
    return _steps(part)[1]


def _steps(part: str) -> tuple[int, int]:
    """Return the first and the last step of a part."""
    first, last = stem_of(part).split("-")
    return int(first), int(last)


def metrics_frame(rows: pa.Table, *, experiment: str, run: str, by_dataset: bool = False) -> pl.DataFrame:
    """Return the metric table of a run: a row per step and split, with the columns of the SQL table `train_metrics`.

    Args:
        rows: From `read_metrics`.
        experiment: Experiment of the run.
        run: Name of the run.
        by_dataset: Also return the rows of each dataset of a mixture, named by the column `dataset`.
    """
    frame = pl.from_arrow(rows if by_dataset else totals(rows))
    assert isinstance(frame, pl.DataFrame)
    named = (pl.lit(experiment).alias("experiment"), pl.lit(run).alias("run"))
    return frame.select(*named, pl.all(), *_rates())


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
