"""The table `train_metrics`: one row a step and split, as Parquet parts in the run's `metrics/` folder.

A part is written just before a checkpoint and holds the steps since the one before, so a run that goes on
from step t drops the parts beyond t and writes the same rows again. Sums and counts only: whoever reads the
table divides. The evaluation package publishes it beside the other results.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trm_data.storage.atomic import is_temporary, temporary_path

PART_NAME = re.compile(r"[0-9]{9}-[0-9]{9}\.parquet")

_COLUMNS: list[tuple[str, pa.DataType, str]] = [
    ("step", pa.int64(), "optimizer steps taken, this one included (steps)"),
    ("split", pa.string(), "train: the slots of this step; validation: the whole split, EMA weights"),
    ("rows_loaded", pa.int64(), "rows taken by slots that had halted, since the start (examples)"),
    ("global_batch_size", pa.int32(), "slots that the loss sums are over (examples)"),
    ("count", pa.int64(), "slots that halted at this step, or rows evaluated (examples)"),
    ("accuracy", pa.float64(), "sum over count of the share of cells that are right (examples)"),
    ("exact_accuracy", pa.int64(), "of count, those with every cell right (examples)"),
    ("q_halt_accuracy", pa.int64(), "of count, those whose halting logit fits their rightness (examples)"),
    ("steps", pa.int64(), "sum over count of supervision steps spent (steps)"),
    ("lm_loss", pa.float64(), "sum over all slots of the mean cross-entropy over cells (nats)"),
    ("q_halt_loss", pa.float64(), "sum over all slots of the halting cross-entropy (nats)"),
    ("lr", pa.float64(), "learning rate of the network at this step"),
    ("seconds", pa.float64(), "wall-clock time since this start of the run (s)"),
]
SCHEMA = pa.schema([pa.field(name, kind, metadata={"comment": text}) for name, kind, text in _COLUMNS])


class MetricTable:
    """Collects rows and writes them as parts.

    Args:
        folder: The run's folder.
        start_step: Step the run goes on from; parts beyond it are removed.
    """

    def __init__(self, folder: Path, start_step: int = 0) -> None:
        self.folder = folder / "metrics"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._from = start_step
        self._rows: list[dict[str, Any]] = []
        self.rows_loaded = 0
        """Rows that the slots have taken, those of the next step included."""
        for part in self.folder.iterdir():
            if is_temporary(part) or (PART_NAME.fullmatch(part.name) and _last_step(part) > start_step):
                part.unlink()
        if start_step:
            self.rows_loaded = max(
                (
                    row["rows_loaded"] + row["count"]
                    for row in read_metrics(folder).to_pylist()
                    if row["split"] == "train"
                ),
                default=0,
            )

    def add(self, row: dict[str, Any]) -> None:
        """Add a row; its keys are the columns."""
        self._rows.append(row)

    def write_part(self, step: int) -> None:
        """Write the rows since the last part; all of them are of steps up to `step`."""
        if not self._rows:
            return
        path = self.folder / f"{self._from + 1:09d}-{step:09d}.parquet"
        temporary = temporary_path(path)
        pq.write_table(pa.Table.from_pylist(self._rows, schema=SCHEMA), temporary, compression="zstd")
        temporary.replace(path)
        self._from = step
        self._rows = []


def read_metrics(run: Path) -> pa.Table:
    """All rows of a run's metric table, by step."""
    folder = run / "metrics"
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    parts = [folder / name for name in names if PART_NAME.fullmatch(name)]
    tables = [pq.read_table(part) for part in parts]
    return pa.concat_tables(tables) if tables else SCHEMA.empty_table()


def _last_step(part: Path) -> int:
    return int(part.stem.rsplit("-", 1)[-1])
