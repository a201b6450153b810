"""Write a dataset's catalog Parquet files, and the DuckDB index over the datasets of a root.

The Parquet files with the shards are the source of truth. `catalog.duckdb` is built from them under a temporary name
and renamed, so a reader sees the old or the new index. Every table's types come from `catalogs/schema.sql`.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trm_data.catalog.schema import TABLES, quote_literal, schema_sql
from trm_data.errors import CorruptDatasetError, DatasetNotFoundError, ForeignDatasetError, Note, QueryError
from trm_data.manifest import FileEntry, Manifest, find_manifest, read_manifests
from trm_data.storage.atomic import file_sha256, sync_file, temporary_path, write_bytes
from trm_data.storage.root import Layout

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


CATALOG_FOLDER = "catalog"
TABLES_AT_A_TIME = 2
INDEX_MEMORY = "512MB"
"""DuckDB's memory limit for writing the index; without a limit, memory grows with the number of puzzles."""


def write_catalog_files(folder: Path, tables: Mapping[str, Callable[[], pa.Table]]) -> list[FileEntry]:
    """Write one Parquet file for each table into `folder`/catalog.

    Args:
        folder: The dataset's folder.
        tables: Function that makes the columns of each table of the schema; missing columns become NULL.
    """
    import duckdb

    target = folder / CATALOG_FOLDER
    target.mkdir(exist_ok=True)
    with closing(duckdb.connect()) as connection, ThreadPoolExecutor(TABLES_AT_A_TIME) as pool:
        connection.execute("SET threads = 1")  # as fast for tables of this size, and a third less memory
        connection.execute(schema_sql())
        files = {
            table: pool.submit(_write_table, connection.cursor(), target, table, make)
            for table, make in tables.items()
        }
        return [files[table].result() for table in TABLES]


def _write_table(
    cursor: duckdb.DuckDBPyConnection, target: Path, table: str, make: Callable[[], pa.Table]
) -> FileEntry:
    import duckdb

    path = target / f"{table}.parquet"
    temporary = temporary_path(path)
    incoming = make()
    with closing(cursor):
        cursor.register("incoming", incoming)
        copy = f"COPY ({_cast(cursor, table, incoming.schema.names)}) TO {quote_literal(str(temporary))}"
        try:
            cursor.execute(f"{copy} (FORMAT parquet, COMPRESSION zstd)")
            sync_file(temporary)
            temporary.replace(path)
        except duckdb.IOException as error:
            raise OSError(str(error)) from error
        finally:
            temporary.unlink(missing_ok=True)
    return FileEntry(
        file=f"{CATALOG_FOLDER}/{path.name}", sha256=file_sha256(path), size_bytes=path.stat().st_size
    )


def write_attachments(folder: Path, attachments: Mapping[str, bytes]) -> list[FileEntry]:
    """Write attached files unchanged, next to the tables."""
    entries: list[FileEntry] = []
    for name, content in attachments.items():
        path = folder / CATALOG_FOLDER / name
        write_bytes(path, content)
        entries.append(
            FileEntry(
                file=f"{CATALOG_FOLDER}/{name}", sha256=file_sha256(path), size_bytes=path.stat().st_size
            )
        )
    return entries


def _cast(connection: duckdb.DuckDBPyConnection, table: str, have: list[str]) -> str:
    """Return the query that gives the rows of `incoming` the columns and types of the schema."""
    columns = connection.execute(f"SELECT column_name, column_type FROM (DESCRIBE {table})").fetchall()
    casts = (f"CAST({name if name in have else 'NULL'} AS {kind}) AS {name}" for name, kind in columns)
    return f"SELECT {', '.join(casts)} FROM incoming"


def refresh_catalog(layout: Layout, changed: str | None = None) -> list[str]:
    """Update `catalog.duckdb` from the manifests under the root.

    Args:
        layout: The root.
        changed: The only dataset that changed since the last update; None rebuilds the whole index.

    Returns:
        One line for each dataset that could not be indexed.
    """
    with rewritten(layout.catalog) as temporary:
        incremental = changed is not None and _copy_index(layout, temporary)
        return _write_index(layout, temporary, [changed] if incremental and changed else None)


@contextmanager
def rewritten(index: Path) -> Generator[Path, None, None]:
    """Hold the lock of an index, yield a temporary path for its next version, and rename that at the end."""
    import duckdb

    locks = index.parent / ".locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / f"{index.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        temporary = temporary_path(index)
        _remove_left(index)
        try:
            yield temporary
            temporary.replace(index)
        except duckdb.Error as error:
            raise QueryError(
                f"{index}: cannot be written ({' '.join(str(error).split())}); is there space left?"
            ) from error
        finally:
            for path in (temporary, Path(f"{temporary}.wal")):
                path.unlink(missing_ok=True)


def _remove_left(index: Path) -> None:
    """Remove temporary files of killed processes. The caller holds the lock of the index."""
    for path in index.parent.glob(f".tmp-*-{index.name}*"):
        path.unlink(missing_ok=True)


def remove_unfinished(index: Path) -> None:
    """Remove temporary files of killed processes, if no process writes the index."""
    if next(index.parent.glob(f".tmp-*-{index.name}*"), None) is None:
        return
    with contextlib.suppress(OSError), (index.parent / ".locks" / f"{index.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove_left(index)


def _copy_index(layout: Layout, temporary: Path) -> bool:
    """Copy the current index as a start; return False if it is missing or does not match the datasets."""
    import duckdb

    if not layout.catalog.is_file():
        return False
    shutil.copyfile(layout.catalog, temporary)
    try:
        with closing(duckdb.connect(str(temporary))) as connection:
            known = {
                row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
            }
            indexed = {row[0] for row in connection.execute("SELECT dataset FROM datasets").fetchall()}
    except duckdb.Error:
        temporary.unlink(missing_ok=True)
        return False
    if known != set(TABLES) or not indexed <= set(layout.dataset_names()):
        temporary.unlink(missing_ok=True)
        return False
    return True


def _write_index(layout: Layout, path: Path, changed: list[str] | None) -> list[str]:
    import duckdb
    import pyarrow as pa

    problems: list[str] = []
    try:
        with closing(duckdb.connect(str(path))) as connection:
            connection.execute(f"SET memory_limit = '{INDEX_MEMORY}'")
            if changed is None:
                connection.execute(schema_sql())
            for name in layout.dataset_names() if changed is None else changed:
                try:
                    _index_dataset(connection, layout, name)
                except DatasetNotFoundError:
                    continue  # the bucket's listing was out of date
                except (CorruptDatasetError, duckdb.Error, pa.ArrowException) as error:
                    problems.append(_left_out(name, error))
    finally:
        Path(f"{path}.wal").unlink(missing_ok=True)
    return problems


def _left_out(name: str, error: Exception) -> str:
    """Return a line for a dataset missing from the catalog; a `Note` if another version wrote it."""
    line = f"{name}: not in the catalog: {error}"
    return Note(line) if isinstance(error, ForeignDatasetError) else line


def _index_dataset(connection: duckdb.DuckDBPyConnection, layout: Layout, name: str) -> None:
    import duckdb

    manifest = find_manifest(layout.dataset(name))
    if manifest is None:
        raise DatasetNotFoundError(f"no dataset {name!r} under {layout.place}")
    connection.begin()
    try:
        for table in TABLES:
            connection.execute(f"DELETE FROM {table} WHERE dataset = ?", [name])
        connection.commit()  # keys deleted in a transaction cannot be inserted again in it
        connection.begin()
        for file in manifest.catalog:
            if not file.file.endswith(".parquet"):  # an attachment, not a table
                continue
            table = Path(file.file).stem
            if table not in TABLES:
                raise CorruptDatasetError(f"{name}: {file.file} is not a table of the catalog")
            _insert(connection, table, layout.dataset(name).open(file))
        connection.commit()
    except BaseException:
        with contextlib.suppress(duckdb.Error):  # a failed commit has ended the transaction
            connection.rollback()
        raise


def _insert(connection: duckdb.DuckDBPyConnection, table: str, path: Path) -> None:
    """Insert the rows of a Parquet file through Arrow: DuckDB would read its path as a glob with partitions."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        rows = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        connection.register("incoming", rows)
        try:
            connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM incoming")
        finally:
            connection.unregister("incoming")


def catalog_index(layout: Layout) -> tuple[Path, list[str]]:
    """Return the path of the index, and a line for each dataset that is not in it.

    An index that is missing, broken, or does not match the existing datasets is rebuilt.
    """
    manifests = read_manifests(layout)
    if not manifests:
        raise QueryError(f"no datasets under {layout.place} yet: trm-data build sudoku")
    built = {name: found.content_digest for name, found in manifests.items() if isinstance(found, Manifest)}
    remove_unfinished(layout.catalog)
    if _indexed(layout.catalog) != built:
        return layout.catalog, refresh_catalog(layout)
    return layout.catalog, [
        _left_out(name, found) for name, found in manifests.items() if not isinstance(found, Manifest)
    ]


def _indexed(path: Path) -> dict[str, str] | None:
    """Return name and content digest of the datasets in an index; None if the file is not an index."""
    import duckdb

    if not path.is_file():
        return None
    try:
        with closing(duckdb.connect(str(path), read_only=True)) as connection:
            return dict(connection.execute("SELECT dataset, digest FROM datasets").fetchall())
    except duckdb.Error:
        return None
