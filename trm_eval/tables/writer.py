"""Writes result tables as Parquet under `<root>/results/<table>/experiment=<e>/run=<r>/`.

Every file's name follows from what it holds, so writing a result again replaces it. The row in `evals` is
written last and names its parts: readers show only what is named there, so a writer that dies leaves
nothing that anyone sees.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from trm_data.storage.atomic import file_sha256, sync_file, temporary_path
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.errors import ResultError
from trm_eval.tables.schema import TABLES


def table_folder(layout: Layout, table: str, experiment: str, run: str) -> Folder:
    """Folder of a run's files of a table."""
    return layout.results.within(f"{table}/experiment={experiment}/run={run}")


def write_table(layout: Layout, table: str, experiment: str, run: str, file: str, content: Any) -> str:
    """Write one file of a table, whole or not at all.

    Args:
        layout: The root.
        table: A table of the schema.
        experiment: Folder, and column.
        run: Folder, and column.
        file: Name of the file, without its ending.
        content: Rows; their columns are the schema's.

    Returns:
        Where it is, as a person knows it.

    Raises:
        ResultError: The rows do not fit the schema, or the file could not be written.
    """
    folder, name = table_folder(layout, table, experiment, run), f"{file}.parquet"
    try:
        path = folder.working(name)
        temporary = temporary_path(path)
        schema = TABLES[table]
        rows = (
            content if isinstance(content, pa.Table) else pa.Table.from_pylist(list(content), schema=schema)
        )
        try:
            pq.write_table(rows.select(schema.names).cast(schema), temporary, compression="zstd")
            sync_file(temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        folder.finish(name, file_sha256(path))
    except (OSError, KeyError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ResultError(f"{folder.where(name)}: could not be written ({error})") from error
    return folder.where(name)


def token_lists(tokens: NDArray[np.uint8]) -> pa.ListArray:
    """Rows of tokens [N, S] as an Arrow list column, without a Python object a cell."""
    rows, cells = tokens.shape
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * np.int32(cells))
    return pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(tokens).reshape(-1)))
