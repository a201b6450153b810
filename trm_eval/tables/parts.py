"""Large tables that DuckDB reads from listed files; it may open no others.

DuckDB knows the row counts of its own files, so it joins the small side to the large one. For an Arrow dataset it knows
no counts, and kept a study's predictions in memory to look up a few evaluations.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads
from pyarrow.fs import LocalFileSystem

from trm_data.catalog.schema import quote_identifier, quote_literal
from trm_data.storage.digests import digest_of

MOST_UNUSED = 10_000
"""Maximum number of cached rows of deleted files in `read_small`."""
PATTERN = frozenset("*?[")
"""Glob characters, with which DuckDB reads a path as a pattern."""


@dataclass(frozen=True)
class Parts:
    """Verified Parquet files of a table.

    Attributes:
        schema: Columns of the table; extra columns of newer files are hidden, missing columns of older files are NULL.
        files: Path, experiment and run of each file.
        owners: Evaluation by path, for files that contain only that evaluation; the files of one evaluation were
            written together, with the same columns.
    """

    schema: pa.Schema
    files: Sequence[tuple[str, str, str]]
    owners: Mapping[str, str] = field(default_factory=dict[str, str])

    def register(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        """Register the views <table>_whole, of files with an owner, and <table>_files, of the others."""
        whole = [file for file in self.files if file[0] in self.owners]
        self._register(connection, f"{table}_whole", whole)
        self._register(
            connection, f"{table}_files", [file for file in self.files if file[0] not in self.owners]
        )

    def _register(
        self, connection: duckdb.DuckDBPyConnection, name: str, files: Sequence[tuple[str, str, str]]
    ) -> None:
        connection.register(f"{name}_columns", self.schema.empty_table())
        alike: dict[tuple[str, str, str | None], list[str]] = {}
        for path, experiment, run in files:
            alike.setdefault((experiment, run, self.owners.get(path)), []).append(path)
        selects = [f"SELECT * FROM {quote_identifier(f'{name}_columns')}"]
        for number, ((experiment, run, owner), paths) in enumerate(alike.items()):
            if any(PATTERN.intersection(path) for path in paths):
                source = quote_identifier(f"{name}_{number}")
                connection.register(source.strip('"'), self._dataset(paths))
            else:
                listed = ", ".join(map(quote_literal, paths))
                source = f"read_parquet([{listed}], union_by_name = {not owner}, hive_partitioning = false)"
            known = f" REPLACE ({quote_literal(owner)} AS evaluation)" if owner else ""
            selects.append(
                f"SELECT *{known}, {quote_literal(experiment)} AS experiment, {quote_literal(run)} AS run "
                f"FROM {source}"
            )
        columns = ", ".join(map(quote_identifier, self.schema.names))
        united = " UNION ALL BY NAME ".join(selects)
        connection.execute(
            f"CREATE OR REPLACE VIEW {quote_identifier(name)} AS SELECT {columns} FROM ({united})"
        )

    def _dataset(self, paths: Sequence[str]) -> pads.Dataset:
        """Open files whose paths DuckDB would read as globs."""
        partition = [self.schema.get_field_index(name) for name in ("experiment", "run")]
        kept = [field for index, field in enumerate(self.schema) if index not in partition]
        return pads.FileSystemDataset.from_paths(
            list(paths), schema=pa.schema(kept), format=pads.ParquetFileFormat(), filesystem=LocalFileSystem()
        )


@dataclass
class _Kept:
    """Cache of rows from files whose names contain their digest, so that they never change."""

    table: pa.Table
    rows: dict[str, range] = field(default_factory=dict[str, range])
    """Row range of each file, by path."""


_KEPT: dict[str, _Kept] = {}
_LOCK = threading.Lock()


def read_small(parts: Parts) -> pa.Table:
    """Return all rows of small files, in order; a file with a digest in its name is read once per process."""
    with _LOCK:
        key = parts.schema.to_string()
        kept = _KEPT.setdefault(key, _Kept(parts.schema.empty_table()))
        new = [file for file in parts.files if file[0] not in kept.rows]
        if new:
            begin = kept.table.num_rows
            rows, counts = _read_rows(parts, new)
            for (path, _, _), count in zip(new, counts, strict=True):
                kept.rows[path] = range(begin, begin + count)
                begin += count
            kept.table = pa.concat_tables([kept.table, rows]).combine_chunks()
        chosen = [row for path, _, _ in parts.files for row in kept.rows[path]]
        whole = len(chosen) == kept.table.num_rows and chosen == list(range(len(chosen)))
        found = kept.table if whole else kept.table.take(pa.array(chosen, pa.int64()))
        if kept.table.num_rows > 2 * len(chosen) + MOST_UNUSED:
            del _KEPT[key]
        for path, _, _ in new:
            if digest_of(Path(path).name) is None:
                del kept.rows[path]
        return found


def _read_rows(parts: Parts, files: Sequence[tuple[str, str, str]]) -> tuple[pa.Table, list[int]]:
    """Return the rows of files with the columns of the table, and the number of rows of each file."""
    paths = [path for path, _, _ in files]
    if any(PATTERN.intersection(path) for path in paths):
        read = [pads.dataset(path, format="parquet").to_table() for path in paths]
        together, counts = pa.concat_tables(read, promote_options="default"), [rows.num_rows for rows in read]
    else:
        together, counts = _read_together(paths)
    constants = {
        "experiment": [
            experiment for (_, experiment, _), count in zip(files, counts, strict=True) for _ in range(count)
        ],
        "run": [run for (_, _, run), count in zip(files, counts, strict=True) for _ in range(count)],
    }

    def column(wanted: pa.Field) -> pa.Array | pa.ChunkedArray:
        if wanted.name in constants:
            return pa.array(constants[wanted.name], wanted.type)
        if wanted.name in together.column_names:
            return together[wanted.name].cast(wanted.type)
        return pa.nulls(together.num_rows, wanted.type)

    return pa.table([column(wanted) for wanted in parts.schema], schema=parts.schema), counts


def _read_together(paths: Sequence[str]) -> tuple[pa.Table, list[int]]:
    """Read files with one query; return their rows in the order of the paths, and the number of rows of each."""
    try:
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            found = connection.sql(
                "SELECT * FROM read_parquet(?, union_by_name = true, filename = true, hive_partitioning = false)",
                params=[list(paths)],
            ).to_arrow_table()
    except duckdb.IOException as error:
        raise FileNotFoundError(str(error)) from error
    rows: dict[str, list[int]] = {path: [] for path in paths}
    for row, name in enumerate(found["filename"].to_pylist()):
        rows[name].append(row)
    order = [row for path in paths for row in rows[path]]
    return found.take(pa.array(order, pa.int64())), [len(rows[path]) for path in paths]


def allow(connection: duckdb.DuckDBPyConnection, tables: Sequence[Parts]) -> None:
    """Allow a connection to read these files even when it is locked, and no others."""
    paths = [quote_literal(path) for parts in tables for path, _, _ in parts.files]
    if paths:
        connection.execute(f"SET allowed_paths = [{', '.join(paths)}]")
