"""Large tables, which stay in their files: predictions, votes and traces of the evaluations that name them.

A query that reads one gets a view over the verified files, and may open no others. Rows of a killed writer, which no
evaluation names, are not in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import duckdb
import pyarrow as pa

from trm_data.catalog.schema import quote_identifier, quote_literal
from trm_data.storage.atomic import checked_files
from trm_data.storage.root import Layout
from trm_eval.tables.schema import NAMED_BY_EVALS, OPENED, no_rows
from trm_eval.tables.writer import part_names_of


def glob_of(path: str) -> str:
    """Return the pattern of one path for DuckDB, which reads `*`, `?` and `[` in paths as wildcards."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in path)


def read_files(paths: Collection[str]) -> str:
    """Return the table function that reads Parquet files of any version, and adds the column `source_path`."""
    listed = ", ".join(quote_literal(glob_of(path)) for path in paths)
    return (
        f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false, filename = 'source_path')"
    )


def open_parts(
    connection: duckdb.DuckDBPyConnection,
    layout: Layout,
    table: str,
    evaluations: Collection[str] | None,
    *,
    again: bool,
    damaged: list[str] | None,
) -> tuple[list[str], list[str]]:
    """Create the view `<table>_opened` over the files that the evaluations of an index name.

    Args:
        connection: Connection whose current database is the index.
        layout: The root.
        table: Name of the table.
        evaluations: Evaluations whose files are needed; None for all.
        again: Also verify files that passed before.
        damaged: Receives a line for each damaged file. Without it damage is an error.

    Returns:
        The paths and patterns that the view reads, and a line for each missing file.
    """
    column, digests = NAMED_BY_EVALS[table]
    rows = connection.execute(
        f"SELECT experiment, run, evaluation, {column}, {digests} FROM all_evals "
        f"WHERE {column} IS NOT NULL AND (? IS NULL OR list_contains(?, evaluation))",
        [evaluations if evaluations is None else list(evaluations)] * 2,
    ).fetchall()
    folder = layout.results.within(table)
    owners: dict[str, list[tuple[str, str]]] = {}
    plain: set[str] = set()
    for experiment, run, evaluation, parts, digests_of in rows:
        for part, name in zip(parts, part_names_of(parts, digests_of), strict=True):
            file = f"experiment={experiment}/run={run}/{name}"
            owners.setdefault(file, []).append((evaluation, part))
            if digests_of is None or not name.startswith(f"{evaluation}-"):
                plain.add(file)
    lines: list[str] = [] if damaged is None else damaged
    paths = checked_files(folder, list(owners), again=again, damaged=damaged)
    known = {line.partition(": ")[0] for line in lines}
    missing = [
        f"{folder.where(file)}: is missing, and an evaluation names it; evaluate again"
        for file, path in zip(owners, paths, strict=True)
        if path is None and folder.where(file) not in known
    ]
    found = {file: str(path) for file, path in zip(owners, paths, strict=True) if path is not None}
    shared = {file for file in found if file in plain or len(owners[file]) > 1}
    _create_view(
        connection,
        table,
        [path for file, path in found.items() if file not in shared],
        [found[file] for file in shared],
        [pair for file in shared for pair in owners[file]],
    )
    return sorted({*found.values(), *map(glob_of, found.values())}), missing


def _create_view(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    whole: Sequence[str],
    shared: Sequence[str],
    named: Sequence[tuple[str, str]],
) -> None:
    """Create the view of a table over files.

    Args:
        connection: The connection.
        table: The table. Further columns of newer files are hidden, missing columns of older files are NULL.
        whole: Files of which every row counts.
        shared: Files of several evaluations, or of format 1, of which only the named rows count.
        named: Evaluation and part of the rows that count in shared files.
    """
    schema = OPENED[table]
    connection.register("columns", no_rows(schema))
    connection.execute(f"CREATE TEMP TABLE {table}_columns AS FROM columns")
    connection.unregister("columns")
    selects = [f"FROM {table}_columns"]
    if whole:
        selects.append(f"FROM {read_files(whole)}")
    if shared:
        pairs = pa.table(
            [pa.array(list(column), pa.string()) for column in zip(*named, strict=True)], ["e", "p"]
        )
        connection.register("pairs", pairs)
        connection.execute(f"CREATE TEMP TABLE {table}_named AS FROM pairs")
        connection.unregister("pairs")
        selects.append(
            f"SELECT f.* FROM {read_files(shared)} AS f "
            f"SEMI JOIN {table}_named AS n ON f.evaluation = n.e AND f.part = n.p"
        )
    columns = ", ".join(map(quote_identifier, schema.names))
    connection.execute(
        f"CREATE TEMP VIEW {table}_opened AS SELECT {columns} FROM ({' UNION ALL BY NAME '.join(selects)})"
    )
