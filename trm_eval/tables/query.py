"""Runs SQL over the result tables and the dataset catalog, read-only.

The index of results has the views and all small tables (`index`). DuckDB's plan of a query tells which other tables it
reads; only those are opened. After that the connection has no access to other files or the network, and its settings
are locked.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import duckdb

from trm_data.catalog.query import attach_catalog, frame_locked, lock, run_locked, tables_read
from trm_data.catalog.schema import TABLES as CATALOG_TABLES
from trm_data.catalog.schema import quote_literal
from trm_data.errors import CorruptFileError, Note, QueryError
from trm_data.show.render import QueryResult
from trm_data.storage.root import Layout, Root, root_to_read
from trm_eval.tables.index import attach_empty, attach_empty_catalog, forget, problems_of, results_index
from trm_eval.tables.live import claims_table, experiment_table, token_table
from trm_eval.tables.named import load_query, query_text
from trm_eval.tables.parts import open_parts
from trm_eval.tables.schema import NAMED_BY_EVALS, OPENED, STORED
from trm_train.experiments.sweep import read_sweeps

if TYPE_CHECKING:
    import polars


Found = TypeVar("Found")

_SKIPS: ContextVar[bool] = ContextVar("damaged files are left out", default=False)

WHICH_EVALUATION = (
    "run",
    "step",
    "weights",
    "dataset",
    "split",
    "row_limit",
    "supervision_steps",
    "how",
    "evaluation",
)
"""Columns of the named queries that identify the evaluation."""

EVERYTHING = frozenset((*STORED, *OPENED, *CATALOG_TABLES))
"""All tables that views read."""


@contextmanager
def skipping_damaged(skip: bool = True) -> Generator[None, None, None]:
    """Context in which queries leave out damaged files, as they do missing ones, and report both."""
    token = _SKIPS.set(skip)
    try:
        yield
    finally:
        _SKIPS.reset(token)


def query_results(
    layout: Layout,
    sql: str,
    parameters: Sequence[object] = (),
    *,
    verify: bool = False,
    as_table: bool = False,
    evaluations: Collection[str] | None = None,
) -> QueryResult:
    """Run a query over results and catalog.

    Args:
        layout: The root.
        sql: A query, or `@name` for one of `named_queries`.
        parameters: Values for each `?` in the query.
        verify: Verify every file that is read, even if it was verified before.
        as_table: Return an Arrow table instead of rows.
        evaluations: Evaluations whose predictions, votes and traces are needed; files of others are not opened.

    Raises:
        QueryError: The SQL cannot be run, or the named query does not exist.
        CorruptFileError: A file has changed since it was written.
    """

    def read(connection: duckdb.DuckDBPyConnection) -> QueryResult:
        return run_locked(connection, text, parameters, as_table=as_table)

    text = query_text(sql)
    found, problems = _read(layout, text, parameters, read, again=verify, evaluations=evaluations)
    return replace(found, problems=tuple(problems))


def sql(query: str, root: Root | None = None, *, skip_damaged: bool = False) -> polars.DataFrame:
    """Run a query over runs, results and catalog; return a data frame.

    Args:
        query: One SQL query, or `@name` for one of `named_queries`.
        root: Root folder, `gs://bucket/prefix`, a layout or a store (default: `$TRM_ROOT`, else `./trm`).
        skip_damaged: Leave out damaged datasets and runs instead of raising an error. A run of another version is
            always left out, with a warning.

    Raises:
        QueryError: The SQL is not a query or cannot be run, the named query does not exist, or a file is damaged.
        CorruptFileError: A file of results or metrics has changed since it was written.
        SpecError: The root does not exist.
    """
    if not isinstance(query, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise QueryError(f"a query is text, or the name of one as '@name'; got {type(query).__name__}")
    text, layout = query_text(query), root_to_read(root)
    with skipping_damaged(skip_damaged):
        found, problems = _read(layout, text, (), lambda connection: frame_locked(connection, text))
    damaged = [problem for problem in problems if not isinstance(problem, Note)]
    if damaged and not skip_damaged:
        raise QueryError("; ".join(damaged) + " (skip_damaged=True skips them)")
    for note in problems:
        if isinstance(note, Note):
            warnings.warn(f"left out: {note}", stacklevel=2)
    return found


def _read(
    layout: Layout,
    text: str,
    parameters: Sequence[object],
    read: Callable[[duckdb.DuckDBPyConnection], Found],
    *,
    again: bool = False,
    evaluations: Collection[str] | None = None,
) -> tuple[Found, list[str]]:
    """Read from the results; also return what was left out.

    Raises:
        QueryError: The query fails, also because a file was replaced while it ran.
    """
    index = results_index(layout, rebuild=again)
    tables = _tables_read(index, text, parameters)
    try:
        with _open_index(index, layout, tables, again=again, evaluations=evaluations) as (
            connection,
            problems,
        ):
            return read(connection), problems
    except (QueryError, duckdb.IOException) as error:
        cause = error if isinstance(error, duckdb.Error) else error.__cause__
        if not isinstance(cause, duckdb.IOException):
            raise
        forget(layout)
        where = layout.results.where("")
        raise QueryError(
            f"{where}: a file cannot be read: {error}. If it was being replaced, ask again"
        ) from error


def query_evaluation(layout: Layout, name: str, evaluation: str) -> QueryResult:
    """Run a named query for one evaluation; columns that identify the evaluation are left out."""
    sql = load_query(name).rstrip().rstrip(";")
    found = query_results(layout, f"SELECT * FROM (\n{sql}\n) WHERE evaluation = ?", [evaluation])
    kept = [position for position, column in enumerate(found.columns) if column not in WHICH_EVALUATION]
    return QueryResult([found.columns[i] for i in kept], [tuple(row[i] for i in kept) for row in found.rows])


def _tables_read(index: Path, text: str, parameters: Sequence[object]) -> set[str]:
    """Return the tables that a query reads, by DuckDB's plan of it over empty tables."""
    with closing(_connect(index)) as connection:
        attach_empty(connection)
        attach_empty_catalog(connection)
        connection.execute("PRAGMA disable_optimizer")
        lock(connection)
        return {name.removesuffix("_opened") for name in tables_read(connection, text, parameters)}


def _connect(index: Path) -> duckdb.DuckDBPyConnection:
    """Return an in-memory connection whose current database is the index, read-only."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")  # it would mix with printed output
    connection.execute("SET parquet_metadata_cache = true")  # a query is planned several times
    connection.execute(f"ATTACH {quote_literal(str(index))} AS results (READ_ONLY)")
    connection.execute("USE results")
    return connection


@contextmanager
def open_results(layout: Layout) -> Generator[tuple[duckdb.DuckDBPyConnection, list[str]], None, None]:
    """Open a connection with all views over runs, results and catalog; also yield what was left out.

    Raises:
        CorruptFileError: A file is damaged, outside of `skipping_damaged`.
    """
    with _open_index(results_index(layout), layout, EVERYTHING) as opened:
        yield opened


@contextmanager
def _open_index(
    index: Path,
    layout: Layout,
    tables: Collection[str],
    *,
    again: bool = False,
    evaluations: Collection[str] | None = None,
) -> Generator[tuple[duckdb.DuckDBPyConnection, list[str]], None, None]:
    """Open the index, and of the other tables only these, so that no other files are fetched from a bucket."""
    with closing(_connect(index)) as connection:
        problems: list[str] = []
        if set(tables).isdisjoint(CATALOG_TABLES) or not layout.dataset_names():
            attach_empty_catalog(connection)
        else:
            problems += attach_catalog(connection, layout)
        of_evals = not set(tables).isdisjoint((*NAMED_BY_EVALS, "puzzle_tokens"))
        read = {*tables, "evals"} if of_evals else {*tables}
        # A query about known evaluations needs no runs; other queries also report which runs cannot be read.
        for problem in problems_of(connection, read | {"runs"}):
            if problem.table not in read and (problem.kind == "damaged" or evaluations is not None):
                continue
            if problem.kind == "damaged" and not _SKIPS.get():
                raise CorruptFileError(problem.line)
            problems.append(problem.text)
        allowed: list[str] = []
        attach_empty(connection, set(OPENED).difference(tables))
        for table in set(OPENED).intersection(tables):
            if table in NAMED_BY_EVALS:
                damaged: list[str] | None = [] if _SKIPS.get() else None
                paths, missing = open_parts(
                    connection, layout, table, evaluations, again=again, damaged=damaged
                )
                allowed += paths
                problems += [*(damaged or ()), *missing]
                continue
            if table == "experiments":
                sweeps, unread = read_sweeps(layout)
                content = experiment_table(sweeps)
                problems += unread
            elif table == "puzzle_tokens":
                splits = connection.sql("SELECT DISTINCT dataset, split, split_digest FROM all_evals")
                content, unread = token_table(layout, splits.to_arrow_table())
                problems += unread
            else:
                content = claims_table()
            connection.register(f"{table}_opened", content)
        if allowed:
            connection.execute(f"SET allowed_paths = [{', '.join(map(quote_literal, allowed))}]")
        yield connection, problems
