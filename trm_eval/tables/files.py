"""The files of the result tables as they are now: listed, checked, and opened as Arrow datasets.

Files are replaced while they are read: what is gone since it was listed is listed again.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from pyarrow.fs import LocalFileSystem

from trm_data.errors import CorruptFileError
from trm_data.storage.digests import checked_files, one_of_each, stem_of
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.tables.live import live_parts
from trm_eval.tables.parts import Parts, read_small
from trm_eval.tables.recent import forget, recent
from trm_eval.tables.schema import LEGACY, NAMED_BY_EVALS, PARTITIONING, TABLES
from trm_eval.tables.writer import files_named, newest_rows

if TYPE_CHECKING:
    from trm_train.runs.record import RunRecord

_SKIPS: ContextVar[bool] = ContextVar("damaged files are left out", default=False)

ATTEMPTS = 3
"""Times that the files of results are listed."""

TableFile = tuple[str, str, str]
"""Name of a Parquet file in the folder of its table or of the runs, its experiment and its run."""


@contextmanager
def skipping_damaged(skip: bool = True) -> Generator[None, None, None]:
    """Queries within leave out files that are damaged, as they do those that are missing, and name both."""
    token = _SKIPS.set(skip)
    try:
        yield
    finally:
        _SKIPS.reset(token)


@dataclass(frozen=True)
class Only:
    """What a query is about, where the caller knows it: files of anything else are not opened.

    Attributes:
        runs: Names of runs, for their metrics and evaluations; None for all.
        evaluations: Evaluations, for their predictions, votes and traces, and of `evals` for the rows of their runs;
            None for all.
    """

    runs: frozenset[str] | None = None
    evaluations: frozenset[str] | None = None


def open_tables(
    layout: Layout,
    wanted: set[str],
    runs: list[tuple[Folder, RunRecord]],
    *,
    again: bool,
    only: Only = Only(),
) -> tuple[dict[str, pads.Dataset | pa.Table | Parts], list[str]]:
    """What the views are made of, by name, and a line for each file that is missing.

    Published copies of `runs` and `train_metrics` are opened only of runs whose folder is gone; views read no others.

    Results are replaced while they are read: where a file that was listed is gone, everything is listed again.
    """
    results = layout.results
    live = {record.run for _, record in runs}
    asked = [run for run in runs if only.runs is None or run[1].run in only.runs]
    tables: dict[str, pads.Dataset | pa.Table | Parts] = {}
    missing: list[str] = []
    gaps: list[str] = []
    for _ in range(ATTEMPTS):
        parts, gaps = live_parts(layout, asked) if "train_metrics" in wanted else ([], [])
        tables["train_metrics_live"], missing = _dataset("train_metrics", layout.runs, parts, again=again)
        for table in ("runs", "train_metrics"):
            found = _listed(layout, table) if table in wanted else []
            found = [file for file in found if file[2] not in live]
            tables[f"{table}_files"], gone = _dataset(table, results.within(table), found, again=again)
            missing += gone
        evals, gone = (
            _evals(layout, again, _SKIPS.get(), _runs_of(layout, only))
            if "evals" in wanted
            else (_no_evals(), [])
        )
        missing += gone
        tables["evals_files"] = evals
        for table in NAMED_BY_EVALS:
            chosen = evals if only.evaluations is None else _of_evaluations(evals, only.evaluations)
            found, gone = _named_files(layout, table, chosen) if table in wanted else ({}, [])
            missing += gone
            tables[table], gone = _parts(table, results.within(table), found, again=again)
            missing += gone
        if not missing and not gaps:
            break
        forget(layout)
    return tables, missing + gaps


@recent
def _evals(
    layout: Layout, again: bool, skips: bool, runs: frozenset[str] | None
) -> tuple[pa.Table, list[str]]:
    """The rows of `evals`, one of each evaluation, and a line for each file that is gone, or damaged and left out."""
    listed = [file for file in _listed(layout, "evals") if runs is None or file[2] in runs]
    found, gone = _parts("evals", layout.results.within("evals"), listed, again=again)
    try:
        return _newest(layout, found), gone
    except FileNotFoundError as error:
        return _no_evals(), [*gone, f"{layout.results.where('evals')}: a file is gone ({error})"]


def _no_evals() -> pa.Table:
    return pa.unify_schemas([TABLES["evals"], PARTITIONING]).empty_table()


def _runs_of(layout: Layout, only: Only) -> frozenset[str] | None:
    """The runs whose rows of `evals` are read; None for all, also where a merged file may hold an evaluation."""
    if only.runs is not None or only.evaluations is None:
        return only.runs
    found = {stem_of(name.rpartition("/")[2]): run for name, _, run in _listed(layout, "evals")}
    wanted = [found.get(evaluation) for evaluation in only.evaluations]
    return None if None in wanted else frozenset(run for run in wanted if run is not None)


def tested_runs(layout: Layout) -> set[str]:
    """The runs that have evaluations; their files are listed only."""
    return {run for _, _, run in _listed(layout, "evals")}


@recent
def _names(layout: Layout, table: str) -> list[str]:
    """The Parquet files of a table, by their names in its folder."""
    return layout.results.within(table).names("experiment=*/run=*/*.parquet")


@recent
def _listed(layout: Layout, table: str) -> list[TableFile]:
    """Every Parquet file of a table, one of each stem; of `evals` all, for rows say themselves which is newer."""
    found: list[TableFile] = []
    names = _names(layout, table)
    for name in names if table == "evals" else one_of_each(names):
        experiment, run, _ = name.split("/")
        found.append((name, experiment.removeprefix("experiment="), run.removeprefix("run=")))
    return found


def _newest(layout: Layout, evals: Parts) -> pa.Table:
    """The rows of `evals`, one of each evaluation."""
    try:
        return newest_rows(read_small(evals))
    except (
        pa.ArrowInvalid,
        duckdb.InvalidInputException,
        duckdb.ConversionException,
        UnicodeDecodeError,
    ) as error:
        raise CorruptFileError(
            f"{layout.results.where('evals')}: a file cannot be read ({error}). Restore it from a copy"
        ) from error


def _of_evaluations(evals: pa.Table, evaluations: frozenset[str]) -> pa.Table:
    return evals.filter(pc.field("evaluation").isin(pa.array(sorted(evaluations), pa.string())))


def _named_files(
    layout: Layout, table: str, evals: pa.Table
) -> tuple[dict[TableFile, str | None], list[str]]:
    """The files of a table that evaluations name, each with the only evaluation that names it, and a line for each
    missing file.

    Several evaluations may lie in one file, and a file of format 1, which has no digest, may be of another writer.
    """
    there = set(_names(layout, table))
    parts, digests = NAMED_BY_EVALS[table]
    named: dict[TableFile, str | None] = {}
    for row in evals.select(["experiment", "run", "evaluation", parts, digests]).to_pylist():
        evaluation = row["evaluation"]
        for name in files_named(row)[table]:
            file = (f"experiment={row['experiment']}/run={row['run']}/{name}", row["experiment"], row["run"])
            alone = row[digests] is not None and name.startswith(f"{evaluation}-") and file not in named
            named[file] = evaluation if alone else None
    folder = layout.results.within(table)
    missing = [
        f"{folder.where(name)}: is missing, and an evaluation names it; evaluate again"
        for name, _, _ in named
        if name not in there
    ]
    return {file: owner for file, owner in named.items() if file[0] in there}, missing


def _dataset(
    table: str, folder: Folder, found: Sequence[TableFile], *, again: bool
) -> tuple[pads.Dataset | pa.Table, list[str]]:
    """Parquet files of a table, checked, with the columns experiment and run, and a line for each that is gone.

    Without files it is an empty table.
    """
    parts, gone = _parts(table, folder, found, again=again)
    if not parts.files:
        return parts.schema.empty_table(), gone
    opened = pads.FileSystemDataset.from_paths(
        [path for path, _, _ in parts.files],
        schema=parts.schema,
        format=pads.ParquetFileFormat(),
        filesystem=LocalFileSystem(),
        partitions=[
            (pc.field("experiment") == experiment) & (pc.field("run") == run)
            for _, experiment, run in parts.files
        ],
    )
    return opened, gone


def _parts(
    table: str, folder: Folder, found: Sequence[TableFile] | Mapping[TableFile, str | None], *, again: bool
) -> tuple[Parts, list[str]]:
    """Parquet files of a table, checked, with the evaluation that each is of where that is known, and a line for each
    that is gone.
    """
    legacy = pa.schema(LEGACY.get(table, []))
    schema = pa.unify_schemas([TABLES[table], legacy, PARTITIONING])
    damaged: list[str] | None = [] if _SKIPS.get() else None
    paths = checked_files(folder, [name for name, _, _ in found], again=again, damaged=damaged)
    gone = [*(damaged or ())]
    named = {line.partition(": ")[0] for line in gone}
    gone += [
        f"{folder.where(name)}: is gone"
        for (name, _, _), path in zip(found, paths, strict=True)
        if path is None and folder.where(name) not in named
    ]
    there = [
        (str(path), experiment, run)
        for path, (_, experiment, run) in zip(paths, found, strict=True)
        if path is not None
    ]
    owners = {
        str(path): owner
        for path, owner in zip(paths, found.values() if isinstance(found, Mapping) else (), strict=False)
        if path is not None and owner is not None
    }
    return Parts(schema, there, owners), gone
