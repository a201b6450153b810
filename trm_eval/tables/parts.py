"""Large tables as DuckDB reads them itself: their files by name, and nothing else on the disk.

DuckDB knows how many rows its own files have, so it joins the small side to the large one; of an Arrow dataset it knows
nothing, and held a study's predictions in memory to look up a few evaluations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads
from pyarrow.fs import LocalFileSystem

from trm_data.catalog.schema import quote_identifier, quote_literal

PATTERN = frozenset("*?[")
"""Characters that make DuckDB read a path as a pattern."""


@dataclass(frozen=True)
class Parts:
    """Checked Parquet files of a table.

    Attributes:
        schema: Columns of the table; of newer files no more are shown, of older ones those that are missing are NULL.
        files: Path, experiment and run of each.
        owners: The evaluation, by path, of each file that has its rows and no others; they were written at once, with
            the same columns.
    """

    schema: pa.Schema
    files: Sequence[tuple[str, str, str]]
    owners: Mapping[str, str] = field(default_factory=dict[str, str])

    def register(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        """Make them the views <table>_whole, of files with an owner, and <table>_files, of the others."""
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
        """Files that DuckDB cannot name, because it would read their paths as patterns."""
        partition = [self.schema.get_field_index(name) for name in ("experiment", "run")]
        kept = [field for index, field in enumerate(self.schema) if index not in partition]
        return pads.FileSystemDataset.from_paths(
            list(paths), schema=pa.schema(kept), format=pads.ParquetFileFormat(), filesystem=LocalFileSystem()
        )


def allow(connection: duckdb.DuckDBPyConnection, tables: Sequence[Parts]) -> None:
    """Let a connection read these files also when it is locked, and no others."""
    paths = [quote_literal(path) for parts in tables for path, _, _ in parts.files]
    if paths:
        connection.execute(f"SET allowed_paths = [{', '.join(paths)}]")
