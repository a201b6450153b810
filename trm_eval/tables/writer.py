"""Writes result tables as Parquet under `<root>/results/<table>/experiment=<e>/run=<r>/`.

The stem of a file name is determined by its content, so writing a result again replaces it; the digest of the bytes
follows the stem. The row in `evals` is written last and refers to its files with their digests. Readers show only files
that a row refers to, so a writer that dies leaves nothing visible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from trm_data.errors import not_written
from trm_data.storage.atomic import of_stem, write_digested
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.errors import ResultError
from trm_eval.tables.schema import NAMED_BY_EVALS, TABLES


def table_folder(layout: Layout, table: str, experiment: str, run: str) -> Folder:
    """Return the folder of a run's files in a table."""
    return layout.results.within(f"{table}/experiment={experiment}/run={run}")


def write_table(layout: Layout, table: str, experiment: str, run: str, file: str, content: Any) -> str:
    """Write one file of a table, atomically; older files with other digests stay.

    Args:
        layout: The root.
        table: Name of a table of the schema.
        experiment: Name of the experiment (folder and column).
        run: Name of the run (folder and column).
        file: Name of the file, without digest and suffix.
        content: Rows with the columns of the schema.

    Returns:
        Name of the file in the run's folder of the table.
    """
    folder, schema = table_folder(layout, table, experiment, run), TABLES[table]
    where = f"{folder.where(file)}.parquet"
    try:
        if not isinstance(content, pa.Table):
            content = list(content)
            if unknown := sorted({name for row in content for name in row} - set(schema.names)):
                raise ResultError(f"{where}: {table} has no column {', '.join(unknown)}")
        rows = content if isinstance(content, pa.Table) else pa.Table.from_pylist(content, schema=schema)
        fitting = rows.select(schema.names).cast(schema)
        return write_digested(folder, file, lambda path: pq.write_table(fitting, path, compression="zstd"))
    except (OSError, KeyError, UnicodeDecodeError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        if isinstance(error, OSError):
            raise ResultError(not_written(where, error, "evaluate again")) from error
        raise ResultError(f"{where}: could not be written ({error})") from error


def replace_table(layout: Layout, table: str, experiment: str, run: str, file: str, content: Any) -> None:
    """Write one file of a table, and delete the existing ones with the same stem; see `write_table`."""
    folder = table_folder(layout, table, experiment, run)
    before = of_stem(folder, file)
    name = write_table(layout, table, experiment, run, file, content)
    for other in before:
        if other != name:
            folder.delete(other)


def part_names_of(parts: Sequence[str], digests: Sequence[str] | None) -> list[str]:
    """Return the file names that a row of `evals` refers to; format 1 has no digests."""
    if digests is None:
        return [f"{part}.parquet" for part in parts]
    return [f"{part}.{digest}.parquet" for part, digest in zip(parts, digests, strict=True)]


def files_named(row: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the files that a row of `evals` refers to, by table."""
    return {
        table: part_names_of(row.get(parts) or [], row.get(digests))
        for table, (parts, digests) in NAMED_BY_EVALS.items()
    }


def named_before(layout: Layout, experiment: str, run: str, evaluation: str) -> dict[str, set[str]]:
    """Return what earlier rows of this evaluation refer to, by table; files of damaged rows are left out."""
    folder = table_folder(layout, "evals", experiment, run)
    found: dict[str, set[str]] = {table: set() for table in NAMED_BY_EVALS}
    for path in folder.currents(folder.names(f"{evaluation}.*")):
        with suppress(pa.ArrowException, UnicodeDecodeError, OSError, KeyError, TypeError):
            for row in pq.ParquetFile(path).read().to_pylist():
                for table, names in files_named(row).items():
                    found[table].update(names)
    return found


def drop_replaced(
    layout: Layout, experiment: str, run: str, before: Mapping[str, set[str]], row: Mapping[str, Any]
) -> None:
    """Delete files of the replaced evaluation, except those that its new row refers to."""
    for table, names in files_named(row).items():
        folder = table_folder(layout, table, experiment, run)
        for name in before[table].difference(names):
            folder.delete(name)


def token_lists(tokens: NDArray[np.uint8]) -> pa.ListArray:
    """Return rows of tokens [N, S] as an Arrow list column, without a Python object per cell."""
    rows, cells = tokens.shape
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * np.int32(cells))
    return pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(tokens).reshape(-1)))
