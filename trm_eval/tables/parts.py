"""Large tables as DuckDB reads them itself: their files by name, and nothing else on the disk.

DuckDB knows how many rows its own files have, so it joins the small side to the large one; of an Arrow dataset it knows
nothing, and held a study's predictions in memory to look up a few evaluations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from trm_data.catalog.schema import quote_identifier, quote_literal


@dataclass(frozen=True)
class Parts:
    """Checked Parquet files of a table.

    Attributes:
        schema: Columns of the table; of newer files no more are shown, of older ones those that are missing are NULL.
        files: Path, experiment and run of each.
    """

    schema: pa.Schema
    files: Sequence[tuple[str, str, str]]

    def register(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        """Make them the view of that name, with the columns experiment and run."""
        connection.register(f"{name}_columns", self.schema.empty_table())
        by_run: dict[tuple[str, str], list[str]] = {}
        for path, experiment, run in self.files:
            by_run.setdefault((experiment, run), []).append(path)
        selects = [f"SELECT * FROM {quote_identifier(f'{name}_columns')}"]
        for (experiment, run), paths in by_run.items():
            listed = ", ".join(map(quote_literal, paths))
            selects.append(
                f"SELECT *, {quote_literal(experiment)} AS experiment, {quote_literal(run)} AS run "
                f"FROM read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
            )
        columns = ", ".join(map(quote_identifier, self.schema.names))
        united = " UNION ALL BY NAME ".join(selects)
        connection.execute(f"CREATE VIEW {quote_identifier(name)} AS SELECT {columns} FROM ({united})")


def allow(connection: duckdb.DuckDBPyConnection, tables: Sequence[Parts]) -> None:
    """Let a connection read these files also when it is locked, and no others."""
    paths = [quote_literal(path) for parts in tables for path, _, _ in parts.files]
    if paths:
        connection.execute(f"SET allowed_paths = [{', '.join(paths)}]")
