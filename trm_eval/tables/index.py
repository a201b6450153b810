"""The index of results: `results.duckdb` at the root, with the rows of all runs, training metrics and evaluations.

Its truth are the records, status files, metric parts and result files of the root. Before a query the files are
listed. If a name, size or time has changed since the index was written, a copy of the index gets the rows of the
changed files and replaces the index in one step, so a reader sees the old or the new index. Predictions, votes and
traces stay in their files (`parts`). The views of `catalogs/results.sql` and their comments are in the index too.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import time
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache, lru_cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import duckdb
import polars
import pyarrow as pa
from polars.exceptions import PanicException, PolarsError

from trm_data.catalog.query import tables_read
from trm_data.catalog.schema import quote_identifier, quote_literal, schema_sql
from trm_data.catalog.write import rewritten
from trm_data.errors import Note
from trm_data.extensions import OWN_FILE, installed_extensions
from trm_data.storage.atomic import checked_files, one_of_each
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder, Stored
from trm_eval.tables.live import run_rows
from trm_eval.tables.schema import (
    COMMENTS_OF_ONE_VIEW,
    LEGACY,
    OPENED,
    PARTITION_COLUMNS,
    STORED,
    VIEW_COMMENTS,
    column_comments,
    no_rows,
)
from trm_train.metrics import FOLDER, current_parts, missing_steps
from trm_train.runs.record import CONFIG_FILE
from trm_train.runs.status import STATUS_FILE, has_ended

NAME = "results.duckdb"
FILES_AT_ONCE, BYTES_AT_ONCE = 1_000, 32_000_000
"""Limits of the number and the total size of the files of a statement."""

UNREADABLE = duckdb.Error, PolarsError, PanicException, OSError
"""Errors of a file that is damaged, or gone since it was listed."""

COLUMN_OF_PAIR = re.compile(r"_[ab]$")

COMMENTED = (
    "claims",
    "puzzle_tokens",
    "traces",
    "votes",
    "puzzles",
    "evals",
    "predictions",
    "experiments",
    "runs",
    "train_metrics",
)
"""Tables from which views copy column comments. If several read tables have a column, the last one here applies."""

DEFINITIONS = ("experiments", "config")
"""Folders of `trm_train` that define the experiments, from which the column `differs` follows."""

_fresh_s = 0.0
_checked: dict[Path, float] = {}
"""Time of the last comparison of an index with its files."""


def keep_for(seconds: float) -> None:
    """Compare an index with its files at most once in this time (s), for processes with many queries."""
    global _fresh_s
    _fresh_s = seconds
    _checked.clear()


def forget(layout: Layout) -> None:
    """Compare the index with its files before the next query."""
    _checked.pop(layout.index(NAME), None)


class Source(NamedTuple):
    """A file whose rows are in the index; for a run the record, whose stamp includes that of the status."""

    table: str
    experiment: str
    run: str
    size_bytes: int
    stamp: str


class Problem(NamedTuple):
    """What is left out of a table, and why. Only `damaged` files are an error."""

    table: str
    kind: str
    line: str

    @property
    def text(self) -> str:
        """The line; a `Note` if the file is intact but from another version."""
        return Note(self.line) if self.kind == "note" else self.line


def results_index(layout: Layout, *, rebuild: bool = False) -> Path:
    """Return the path of the index, after bringing it up to date.

    Args:
        layout: The root.
        rebuild: Read and verify every file again.
    """
    path = layout.index(NAME)
    if not rebuild and time.monotonic() - _checked.get(path, -_fresh_s) < _fresh_s:
        return path
    if rebuild or not _is_current(layout, path):
        with rewritten(path) as temporary:
            _update(layout, path, temporary, rebuild=rebuild)
    _checked[path] = time.monotonic()
    return path


def problems_of(connection: duckdb.DuckDBPyConnection, tables: Iterable[str]) -> list[Problem]:
    """Return what is left out of these tables of an open index."""
    found = connection.execute(
        'SELECT "table", kind, line FROM stored.problems WHERE list_contains(?, "table") ORDER BY ALL',
        [list(tables)],
    )
    return [Problem(*row) for row in found.fetchall()]


def _is_current(layout: Layout, path: Path) -> bool:
    """Return whether an index was made by this version of the files that the root has now, and no run died since."""
    if not path.is_file():
        return False
    try:
        with closing(duckdb.connect(str(path), read_only=True)) as connection:
            state = connection.execute("SELECT version, listing FROM stored.state").fetchone()
            ended = _ended_runs(connection)
    except duckdb.Error:
        return False
    return not ended and state == (_version(), _digest_of([*_list_runs(layout), *_list_others(layout)]))


def _version() -> str:
    """Return a digest of what else the rows depend on: views, columns, experiments, and installed extensions."""
    package = files("trm_train")
    defining = [path for name in DEFINITIONS for path in sorted(Path(str(package / name)).glob("**/*.py"))]
    if own := os.environ.get(OWN_FILE):
        defining.append(Path(own).expanduser())
    marks = [
        (str(path), status.st_size, status.st_mtime_ns)
        for path in defining
        if path.is_file() and (status := path.stat())
    ]
    schemas = [schema.to_string() for schema in STORED.values()]
    parts = version("trm-lab"), views_sql(), schemas, marks, installed_extensions()
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def views_sql() -> str:
    """Return the statements that create the views over results."""
    return files("catalogs").joinpath("results.sql").read_text("utf-8")


def attach_empty(connection: duckdb.DuckDBPyConnection, tables: Iterable[str] = OPENED) -> None:
    """Give the views of an index empty tables in place of those that a query would open."""
    for table in tables:
        connection.register("columns", no_rows(OPENED[table]))
        connection.execute(f"CREATE TEMP TABLE {table}_opened AS FROM columns")
        connection.unregister("columns")


def attach_empty_catalog(connection: duckdb.DuckDBPyConnection) -> None:
    """Attach a dataset catalog without datasets."""
    connection.execute("ATTACH ':memory:' AS catalog")
    before = connection.execute("SELECT current_catalog()").fetchall()
    connection.execute(f"USE catalog; {schema_sql()}; USE {quote_identifier(before[0][0])}")


def _list_runs(layout: Layout) -> list[Stored]:
    """List the records and status files of all runs."""
    names = CONFIG_FILE, STATUS_FILE
    return [file for name in names for file in layout.store.listed("runs", f"*/*/*/{name}")]


def _list_others(layout: Layout) -> list[Stored]:
    """List metric parts, evaluations, and published runs."""
    patterns = [("runs", f"*/*/*/{FOLDER}/*.parquet")]
    patterns += [(f"results/{table}", "experiment=*/run=*/*.parquet") for table in STORED]
    return [file for folder, pattern in patterns for file in layout.store.listed(folder, pattern)]


def _digest_of(listed: Iterable[Stored]) -> str:
    lines = (f"{file.name} {file.generation}\n" for file in listed)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _sources(files: Sequence[Stored]) -> dict[str, Source]:
    """Return where the rows of listed files belong, by file; a status belongs to its record."""
    statuses = {file.name: file.generation for file in files if file.name.endswith(f"/{STATUS_FILE}")}
    found: dict[str, Source] = {}
    for file in files:
        if file.name in statuses:
            continue
        top, table, experiment, run, name, *_ = file.name.split("/")
        of = experiment.removeprefix("experiment="), run.removeprefix("run=")
        stamp = file.generation
        if name == CONFIG_FILE:
            table = "runs"
            stamp += f" {statuses.get(file.name.removesuffix(CONFIG_FILE) + STATUS_FILE, '')}"
        elif top == "runs":
            table = "train_metrics"
        found[file.name] = Source(table, *of, file.size_bytes, stamp)
    return found


def _update(layout: Layout, path: Path, temporary: Path, *, rebuild: bool) -> None:
    """Write the next version of the index to a temporary path, from the current version if that is usable."""
    if not rebuild and path.is_file():
        shutil.copyfile(path, temporary)
    try:
        with closing(duckdb.connect(str(temporary))) as connection:
            if connection.execute("SELECT version FROM stored.state").fetchone() == (_version(),):
                _read_changes(connection, layout, again=False)
                return
    except duckdb.Error:  # a missing or damaged index
        pass
    temporary.write_bytes(_empty_index(_version()))
    with closing(duckdb.connect(str(temporary))) as connection:
        attach_empty(connection)
        attach_empty_catalog(connection)
        _read_changes(connection, layout, again=rebuild)


@lru_cache(1)
def _empty_index(_: str) -> bytes:
    """Return the file of an index without rows, by the version of the index."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        with closing(duckdb.connect(str(path))) as connection:
            _create(connection)
        return path.read_bytes()


def _create(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the tables and views of an empty index."""
    connection.execute(
        "CREATE SCHEMA stored; CREATE TABLE stored.state (version VARCHAR, listing VARCHAR); "
        'CREATE TABLE stored.files (file VARCHAR, "table" VARCHAR, stamp VARCHAR); '
        'CREATE TABLE stored.problems (file VARCHAR, "table" VARCHAR, kind VARCHAR, line VARCHAR)'
    )
    for table, schema in STORED.items():
        connection.register("columns", no_rows(schema))
        connection.execute(f"CREATE TABLE stored.{table} AS SELECT *, NULL::VARCHAR AS file FROM columns")
        connection.unregister("columns")
    attach_empty(connection)
    attach_empty_catalog(connection)
    connection.execute("BEGIN")  # one commit instead of a thousand
    connection.execute(views_sql())
    _comment(connection)
    connection.execute("COMMIT")


def _comment(connection: duckdb.DuckDBPyConnection) -> None:
    """Add a comment to every column of every view: from the schemas, or from the catalog's tables."""
    known = connection.execute(
        "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE database_name = 'catalog'"
    ).fetchall()
    texts = {(table, column): text for table, column, text in known if text} | column_comments()
    columns = connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() "
        "WHERE schema_name = 'main' AND database_name = current_catalog() AND NOT internal"
    ).fetchall()

    @cache
    def reads(table: str) -> set[str]:
        return {name.removesuffix("_opened") for name in tables_read(connection, f"FROM {table}")}

    statements: list[str] = []
    connection.execute("PRAGMA disable_optimizer")
    for table, column in columns:
        alone = COLUMN_OF_PAIR.sub("", column)
        taken_over = (texts.get((of, alone)) for of in reversed(COMMENTED) if of in reads(table))
        text = (
            COMMENTS_OF_ONE_VIEW.get((table, column))
            or texts.get((table.removeprefix("all_"), column))
            or VIEW_COMMENTS.get(alone)
            or next(filter(None, taken_over), None)
        )
        if text:
            target = f"{quote_identifier(table)}.{quote_identifier(column)}"
            statements.append(f"COMMENT ON COLUMN {target} IS {quote_literal(text)}")
    connection.execute("PRAGMA enable_optimizer")
    connection.execute("; ".join(statements))


def _read_changes(connection: duckdb.DuckDBPyConnection, layout: Layout, *, again: bool) -> None:
    """Remove the rows of files that are gone or changed, and read those that are new or changed."""
    connection.execute("SET TimeZone = 'UTC'")
    known = dict(connection.execute("SELECT file, stamp FROM stored.files").fetchall())
    for file in _ended_runs(connection):
        known[file] = ""
    # Read status files before listing parts: a later status could tell of parts that are not listed.
    listed_runs = _list_runs(layout)
    runs = _sources(listed_runs)
    changed = [file for file, source in runs.items() if known.get(file) != source.stamp]
    folders = [Folder(layout.store, file.removesuffix(f"/{CONFIG_FILE}")) for file in changed]
    rows, problems = run_rows(layout, folders)
    listed_others = _list_others(layout)
    others = _sources(listed_others)
    unreadable = {file for file, found in zip(changed, problems, strict=True) if found is not None}
    before = connection.execute("SELECT file FROM stored.problems WHERE \"table\" = 'runs'").fetchall()
    unreadable |= {file for (file,) in before if file in runs and file not in changed}
    readable = {file.removesuffix(f"/{CONFIG_FILE}") for file in runs if file not in unreadable}
    wanted = runs | _to_read(runs, others, readable)
    stale = [file for file, stamp in known.items() if file not in wanted or wanted[file].stamp != stamp]
    connection.register("stale", pa.table({"file": pa.array(stale, pa.string())}))
    for table in (*STORED, "files", "problems"):
        connection.execute(f"DELETE FROM stored.{table} WHERE file IN (FROM stale)")
    connection.unregister("stale")
    _note(connection, {file: runs[file] for file in changed})
    connection.register("incoming", rows)
    connection.execute("INSERT INTO stored.runs BY NAME SELECT * FROM incoming")
    connection.unregister("incoming")
    _append(
        connection,
        "problems",
        [
            (file, "runs", "note" if isinstance(found, Note) else "left out", found)
            for file, found in zip(changed, problems, strict=True)
            if found is not None
        ],
    )
    for table in STORED:
        new = {
            file: source
            for file, source in wanted.items()
            if source.table == table and file not in runs and known.get(file) != source.stamp
        }
        for some in _portions(new):
            _read_files(connection, layout, table, some, again=again)
    _note_gaps(connection, layout, readable, wanted)
    connection.execute("DELETE FROM stored.state")
    connection.execute(
        "INSERT INTO stored.state VALUES (?, ?)", [_version(), _digest_of([*listed_runs, *listed_others])]
    )


def _ended_runs(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the records of runs that are running in the index, whose process on this machine has ended."""
    found = connection.execute(
        "SELECT file, process FROM stored.runs WHERE state = 'running' AND host = ?", [socket.gethostname()]
    )
    return [file for file, process in found.fetchall() if has_ended(process)]


def _to_read(
    runs: Mapping[str, Source], others: Mapping[str, Source], readable: Collection[str]
) -> dict[str, Source]:
    """Return the files that have rows: current parts of readable runs, evaluations, and published rows of runs
    without a folder.
    """
    live = {source.run for source in runs.values()}
    folders: dict[str, list[str]] = {}
    for file in others:
        folders.setdefault(file.rpartition("/")[0], []).append(file)
    found: list[str] = []
    for folder, inside in folders.items():
        table, run = others[inside[0]].table, others[inside[0]].run
        if table == "evals":  # all: their rows have timestamps
            found += inside
        elif folder.startswith("runs/"):
            if folder.removesuffix(f"/{FOLDER}") in readable:
                names = current_parts([file.removeprefix(f"{folder}/") for file in inside])
                found += [f"{folder}/{name}" for name in names]
        elif run not in live:
            found += one_of_each(inside)
    return {file: others[file] for file in found}


def _portions(sources: Mapping[str, Source]) -> Generator[dict[str, Source], None, None]:
    """Divide files into portions that are read at once."""
    some: dict[str, Source] = {}
    size = 0
    for file, source in sources.items():
        if some and (len(some) >= FILES_AT_ONCE or size + source.size_bytes > BYTES_AT_ONCE):
            yield some
            some, size = {}, 0
        some[file] = source
        size += source.size_bytes
    if some:
        yield some


def _read_files(
    connection: duckdb.DuckDBPyConnection,
    layout: Layout,
    table: str,
    sources: Mapping[str, Source],
    *,
    again: bool,
) -> None:
    """Insert the rows of verified files; note the damaged ones."""
    top, damaged = next(iter(sources)).partition("/")[0], list[str]()
    folder = Folder(layout.store, top)
    names = [file.removeprefix(f"{top}/") for file in sources]
    paths = checked_files(folder, names, again=again, damaged=damaged)
    lines = {line.partition(": ")[0]: line for line in damaged}
    found = {file: str(path) for file, path in zip(sources, paths, strict=True) if path is not None}
    try:
        _insert(connection, table, sources, found)
    except UNREADABLE:
        for file, path in found.items():
            try:
                _insert(connection, table, sources, {file: path})
            except UNREADABLE as error:
                if Path(path).is_file():
                    where = layout.store.where(file)
                    lines[where] = f"{where}: cannot be read ({error}). Restore it from a copy"
    _note(
        connection,
        {file: sources[file] for file in found}
        | {file: source for file, source in sources.items() if layout.store.where(file) in lines},
    )
    places = {file: layout.store.where(file) for file in sources}
    _append(
        connection,
        "problems",
        [(file, table, "damaged", lines[place]) for file, place in places.items() if place in lines],
    )


def _insert(
    connection: duckdb.DuckDBPyConnection, table: str, sources: Mapping[str, Source], found: Mapping[str, str]
) -> None:
    """Insert the rows of local files with the columns of today; missing columns are NULL."""
    if not found:
        return
    # Polars reads a thousand small files in a quarter of DuckDB's time, but not with columns added to each.
    files = [
        polars.scan_parquet(path, include_file_paths="source_path", hive_partitioning=False, glob=False)
        for path in found.values()
    ]
    of = [(path, file, sources[file].experiment, sources[file].run) for file, path in found.items()]
    of_files = polars.DataFrame(of, ["source_path", "file", "experiment", "run"], orient="row")
    rows = (
        polars.concat(files, how="diagonal_relaxed").collect().drop(*PARTITION_COLUMNS, "file", strict=False)
    )
    rows = rows.join(of_files, on="source_path").rechunk()
    columns = {"file": "file"}
    for name in map(str, STORED[table].names):
        names = dict.fromkeys((name, LEGACY[table].get(name, name)))
        there = ", ".join(quote_identifier(each) for each in names if each in rows.columns)
        columns[quote_identifier(name)] = f"coalesce({there})" if there else "NULL"
    connection.register("incoming", rows)
    try:
        connection.execute(
            f"INSERT INTO stored.{table} ({', '.join(columns)}) SELECT {', '.join(columns.values())} FROM incoming"
        )
    finally:
        connection.unregister("incoming")


def _note(connection: duckdb.DuckDBPyConnection, sources: Mapping[str, Source]) -> None:
    """Note files as read, with their stamps."""
    _append(connection, "files", [(file, source.table, source.stamp) for file, source in sources.items()])


def _append(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[str, ...]]) -> None:
    """Append rows of text to a table of the index."""
    if not rows:
        return
    connection.register("rows", polars.DataFrame(rows, orient="row"))
    connection.execute(f"INSERT INTO stored.{table} FROM rows")
    connection.unregister("rows")


def _note_gaps(
    connection: duckdb.DuckDBPyConnection,
    layout: Layout,
    readable: Collection[str],
    wanted: Mapping[str, Source],
) -> None:
    """Note the runs whose steps are not all in parts."""
    ended = connection.execute(
        "SELECT file, step FROM stored.runs WHERE state IN ('finished', 'stopped', 'failed')"
    ).fetchall()
    last = {file.removesuffix(f"/{CONFIG_FILE}"): step for file, step in ended}
    parts: dict[str, list[str]] = {folder: [] for folder in readable}
    for file, source in wanted.items():
        if source.table == "train_metrics" and file.startswith("runs/"):
            folder, _, name = file.partition(f"/{FOLDER}/")
            parts[folder].append(name)
    connection.execute("DELETE FROM stored.problems WHERE kind = 'gap'")
    gaps = {folder: missing_steps(names, last.get(folder, 0)) for folder, names in parts.items()}
    _append(
        connection,
        "problems",
        [
            (
                folder,
                "train_metrics",
                "gap",
                f"{folder.rpartition('/')[2]}: the metrics of steps {steps} are missing: a part in "
                f"{layout.store.where(folder)}/{FOLDER} is gone",
            )
            for folder, steps in gaps.items()
            if steps
        ],
    )
