"""Files of the result tables: listed, verified, and opened as Arrow datasets.

Files may be replaced while they are read: if a listed file no longer exists, the listing is repeated.
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
"""Attempts to list and open the files of results, which may be replaced meanwhile."""

TableFile = tuple[str, str, str]
"""Name of a Parquet file in its table's folder or the runs' folder, its experiment and its run."""


@contextmanager
def skipping_damaged(skip: bool = True) -> Generator[None, None, None]:
    """Context in which queries leave out damaged files, as they do missing ones, and report both."""
    token = _SKIPS.set(skip)
    try:
        yield
    finally:
        _SKIPS.reset(token)


@dataclass(frozen=True)
class Only:
    """Scope of a query, if the caller knows it; files outside the scope are not opened.

    Attributes:
        runs: Names of runs whose metrics and evaluations are needed; None for all.
        evaluations: Evaluations whose predictions, votes and traces are needed, and the rows of their runs in `evals`;
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
    """Open the data of the views, by name; return them, and a line for each missing file.

    Published copies of `runs` and `train_metrics` are opened only if the run's folder is gone; views read no others.

    Results may be replaced while they are read: if a listed file no longer exists, the listing is repeated.
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
    """Return the newest row of each evaluation, and a line for each file that is gone, or damaged and left out."""
    listed = [file for file in _listed(layout, "evals") if runs is None or file[2] in runs]
    found, gone = _parts("evals", layout.results.within("evals"), listed, again=again)
    try:
        return _newest(layout, found), gone
    except FileNotFoundError as error:
        return _no_evals(), [*gone, f"{layout.results.where('evals')}: a file is gone ({error})"]


def _no_evals() -> pa.Table:
    return pa.unify_schemas([TABLES["evals"], PARTITIONING]).empty_table()


def _runs_of(layout: Layout, only: Only) -> frozenset[str] | None:
    """Return the runs whose rows of `evals` are needed; None for all, also if an evaluation may be in a merged file."""
    if only.runs is not None or only.evaluations is None:
        return only.runs
    found = {stem_of(name.rpartition("/")[2]): run for name, _, run in _listed(layout, "evals")}
    wanted = [found.get(evaluation) for evaluation in only.evaluations]
    return None if None in wanted else frozenset(run for run in wanted if run is not None)


def tested_runs(layout: Layout) -> set[str]:
    """Return the runs that have evaluations; files are only listed."""
    return {run for _, _, run in _listed(layout, "evals")}


@recent
def _names(layout: Layout, table: str) -> list[str]:
    """Return the names of a table's Parquet files, relative to its folder."""
    return layout.results.within(table).names("experiment=*/run=*/*.parquet")


@recent
def _listed(layout: Layout, table: str) -> list[TableFile]:
    """Return a table's Parquet files, one for each stem; all for `evals`, whose rows have timestamps."""
    found: list[TableFile] = []
    names = _names(layout, table)
    for name in names if table == "evals" else one_of_each(names):
        experiment, run, _ = name.split("/")
        found.append((name, experiment.removeprefix("experiment="), run.removeprefix("run=")))
    return found


def _newest(layout: Layout, evals: Parts) -> pa.Table:
    """Return the newest row of each evaluation."""
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
    """Return the files of a table that evaluations refer to, and a line for each missing file.

    Each file comes with the only evaluation that refers to it, or None: several evaluations may share one file, and a
    file of format 1, which has no digest, may come from another writer.
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
    """Open verified Parquet files of a table, with the columns experiment and run; also return lines on gone files.

    Without files the result is an empty table.
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
    """Return verified Parquet files of a table, each with its evaluation if known, and a line for each file that is
    gone.
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
