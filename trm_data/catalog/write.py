"""Write a dataset's catalog Parquet files, and the DuckDB index over the datasets of a root.

The tables of a dataset are polars frames, made from the results of its build. Columns and types
are those of `catalogs/schema.sql`; DuckDB casts and checks them when they are written. The Parquet
files with the shards are the source of truth. `catalog.duckdb` is built from them under a
temporary name and renamed, so a reader sees the old or the new index.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trm_data.catalog.schema import TABLES, quote_literal, schema_sql
from trm_data.errors import CorruptDatasetError, ForeignDatasetError, Note, QueryError
from trm_data.kinds.base import Kind
from trm_data.manifest import Manifest, read_manifests
from trm_data.records import Groups, Selection
from trm_data.specs import Split
from trm_data.storage.atomic import file_sha256, sync_file, temporary_path, write_bytes
from trm_data.storage.root import FileEntry, Layout
from trm_data.symmetry.base import MadeRows

if TYPE_CHECKING:
    import duckdb
    import polars


def catalog_tables(
    kind: Kind,
    manifest: Manifest,
    selection: Selection,
    made: Mapping[str, Sequence[MadeRows | None]],
) -> dict[str, Callable[[], polars.DataFrame]]:
    """Return a function for each table that makes its rows, without the column `dataset`.

    Args:
        kind: The kind of the dataset.
        manifest: The dataset's manifest, without its catalog files.
        selection: Groups of every split, sources and rejects.
        made: For each split and shard, how its rows were made; None if they were not made here.
    """
    import polars

    def of_splits(make: Callable[[Split, Groups], dict[str, Any]]) -> Callable[[], polars.DataFrame]:
        def frames() -> Iterator[polars.DataFrame]:
            for split, groups in selection.splits.items():
                yield polars.DataFrame(make(split, groups)).with_columns(split=polars.lit(split))

        return lambda: polars.concat(frames(), how="vertical_relaxed")

    names, rejects, sources = selection.identifier_names, selection.rejects, selection.sources
    return {
        "examples": of_splits(lambda split, groups: _examples(groups, made[split])),
        "augmentations": of_splits(lambda split, groups: _augmentations(kind, manifest, groups, made[split])),
        "puzzles": of_splits(lambda split, groups: _puzzles(groups)),
        "datasets": lambda: polars.DataFrame(_dataset(manifest)),
        "sources": lambda: polars.DataFrame(
            {
                "file": [source.file for source in sources],
                "sha256": [source.sha256 for source in sources],
                "rows": [source.rows for source in sources],
                "licence": [source.licence or None for source in sources],
            }
        ),
        "splits": lambda: polars.DataFrame(
            [
                {**asdict(entry), "split": split, "shards": len(entry.shards)}
                for split, entry in manifest.splits.items()
            ]
        ),
        "shards": lambda: polars.DataFrame(
            [
                {**asdict(shard), "split": split, "shard": index, "path": shard.file}
                for split, entry in manifest.splits.items()
                for index, shard in enumerate(entry.shards)
            ]
        ),
        "identifiers": lambda: polars.DataFrame({"identifier": range(len(names)), "name": list(names)}),
        "rejects": lambda: polars.DataFrame(
            {
                "file": [reject.file.rsplit("/", 1)[-1] for reject in rejects],
                "line": [reject.line for reject in rejects],
                "reason": [reject.reason for reject in rejects],
            }
        ),
    }


def _dataset(manifest: Manifest) -> dict[str, list[Any]]:
    return {
        "kind": [manifest.kind],
        "digest": [manifest.content_digest],
        "spec_digest": [manifest.spec_digest],
        "spec": [json.dumps(manifest.spec.to_json(), sort_keys=True)],
        "sequence_length": [manifest.sequence_length],
        "vocabulary_size": [manifest.vocabulary_size],
        "num_identifiers": [manifest.num_identifiers],
        "built_at": [manifest.built_at],
        "builder_version": [manifest.builder_version],
    }


def _puzzles(groups: Groups) -> dict[str, Any]:
    return {
        "group_index": np.arange(len(groups), dtype=np.int32),
        "source_file": groups.source_files,
        "source_row": groups.source_rows,
        "puzzle_key": groups.keys,
        "num_augmentations": groups.augmentations.counts,
        "num_examples": groups.examples_per_augmentation.astype(np.int32),
        "canonical_hash": groups.canonical_hashes,
        "first_identifier": groups.first_identifiers,
        **groups.facts,
    }


def _augmentations(
    kind: Kind, manifest: Manifest, groups: Groups, made: Sequence[MadeRows | None]
) -> dict[str, Any]:
    """Return every augmentation; for a virtual dataset without identifiers, only those of groups with listed k."""
    identifier_each = kind.geometry(manifest.spec).identifier_each
    which = np.arange(len(groups), dtype=np.int64)
    if manifest.virtual and not identifier_each:
        which = np.flatnonzero(groups.augmentations.offsets >= 0)
    puzzle_groups, positions = groups.augmentations.numbered(which)
    ks = groups.augmentations.ks(puzzle_groups, positions)
    known = [shard.elements for shard in made if shard is not None]
    elements = np.concatenate(known) if known else kind.elements(manifest.spec, groups, puzzle_groups, ks)
    identifiers = groups.first_identifiers[puzzle_groups]
    if groups.imported is not None:
        identifiers = groups.imported.puzzle_identifiers[groups.imported.examples == 0]
    elif identifier_each:
        identifiers = identifiers + positions.astype(np.int32)
    return {
        "group_index": puzzle_groups.astype(np.int32),
        "augmentation": positions.astype(np.int32),
        "k": ks.astype(np.int32),
        "element": elements,
        "identifier": identifiers,
        **kind.element_columns(elements),
    }


def _examples(groups: Groups, made: Sequence[MadeRows | None]) -> dict[str, Any]:
    """Return the translation of every row, for kinds that translate."""
    known = [shard.offsets for shard in made if shard is not None and shard.offsets is not None]
    moved = np.concatenate(known) if known else np.empty((0, 2), np.uint8)
    numbers = groups.numbered(0, len(groups) if len(moved) else 0)
    return {
        "group_index": numbers.groups.astype(np.int32),
        "augmentation": numbers.augmentations.astype(np.int32),
        "example": numbers.examples.astype(np.int32),
        "row_offset": moved[:, 0],
        "column_offset": moved[:, 1],
    }


CATALOG_FOLDER = "catalog"
TABLES_AT_A_TIME = 2
INDEX_MEMORY = "512MB"
"""DuckDB's memory limit for writing the index; without a limit, memory grows with the number of puzzles."""


def write_catalog_files(
    folder: Path, name: str, tables: Mapping[str, Callable[[], polars.DataFrame]]
) -> list[FileEntry]:
    """Write one Parquet file for each table into `folder`/catalog.

    Args:
        folder: The dataset's folder.
        name: Name of the dataset.
        tables: Function that makes the columns of each table of the schema; missing columns become NULL.
    """
    import duckdb

    target = folder / CATALOG_FOLDER
    target.mkdir(exist_ok=True)
    with closing(duckdb.connect()) as connection, ThreadPoolExecutor(TABLES_AT_A_TIME) as pool:
        connection.execute("SET threads = 1")  # as fast for tables of this size, and a third less memory
        connection.execute(schema_sql())
        files = {
            table: pool.submit(_write_table, connection.cursor(), target, name, table, make)
            for table, make in tables.items()
        }
        return [files[table].result() for table in TABLES]


def _write_table(
    cursor: duckdb.DuckDBPyConnection,
    target: Path,
    name: str,
    table: str,
    make: Callable[[], polars.DataFrame],
) -> FileEntry:
    import duckdb
    import polars

    path = target / f"{table}.parquet"
    temporary = temporary_path(path)
    incoming = make().with_columns(dataset=polars.lit(name))
    with closing(cursor):
        cursor.register("incoming", incoming)
        copy = f"COPY ({_cast(cursor, table, incoming.columns)}) TO {quote_literal(str(temporary))}"
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


@contextmanager
def rewritten(index: Path) -> Generator[Path, None, None]:
    """Hold the lock of an index, yield a temporary path for its next version, and rename that at the end."""
    import duckdb

    locks = index.parent / ".locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / f"{index.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        temporary = temporary_path(index)
        for path in index.parent.glob(f".tmp-*-{index.name}*"):  # of killed processes
            path.unlink(missing_ok=True)
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


def catalog_index(layout: Layout) -> tuple[Path, list[str]]:
    """Return the path of the index, and a line for each dataset that is not in it.

    An index that is missing, broken, or does not match the existing datasets is rebuilt.
    """
    manifests = read_manifests(layout)
    if not manifests:
        raise QueryError(f"no datasets under {layout.place} yet: trm-data build sudoku")
    built = {name: found for name, found in manifests.items() if isinstance(found, Manifest)}
    left_out: dict[str, Exception] = {
        name: found for name, found in manifests.items() if not isinstance(found, Manifest)
    }
    if _indexed(layout.catalog) != {name: manifest.content_digest for name, manifest in built.items()}:
        left_out |= _write_index(layout, built)
    problems: list[str] = []
    for name, error in left_out.items():
        line = f"{name}: not in the catalog: {error}"
        problems.append(Note(line) if isinstance(error, ForeignDatasetError) else line)
    return layout.catalog, problems


def _write_index(layout: Layout, manifests: Mapping[str, Manifest]) -> dict[str, Exception]:
    """Rewrite the index; return the error of each dataset that could not be indexed."""
    import duckdb
    import pyarrow as pa

    failed: dict[str, Exception] = {}
    with rewritten(layout.catalog) as temporary, closing(duckdb.connect(str(temporary))) as connection:
        connection.execute(f"SET memory_limit = '{INDEX_MEMORY}'")
        connection.execute(schema_sql())
        for name, manifest in manifests.items():
            connection.begin()
            try:
                for file in manifest.catalog:
                    if file.file.endswith(".parquet"):  # others are attachments
                        _insert(connection, Path(file.file).stem, layout.dataset(name).open(file))
                connection.commit()
            except (CorruptDatasetError, duckdb.Error, pa.ArrowException) as error:
                failed[name] = error
                with contextlib.suppress(duckdb.Error):  # a failed commit has ended the transaction
                    connection.rollback()
    return failed


def _insert(connection: duckdb.DuckDBPyConnection, table: str, path: Path) -> None:
    """Insert the rows of a Parquet file through Arrow: DuckDB would read its path as a glob with partitions."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if table not in TABLES:
        raise CorruptDatasetError(f"{path} is not a table of the catalog")
    with pq.ParquetFile(path) as file:
        rows = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        connection.register("incoming", rows)
        try:
            connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM incoming")
        finally:
            connection.unregister("incoming")


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
