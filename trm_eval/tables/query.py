"""Runs SQL over the result tables and the dataset catalog, read-only.

The tables are registered as Arrow datasets, so only the columns and rows that a query needs are read from the files.
After that the connection has no access to files or the network, and its settings are locked.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import pyarrow as pa

from trm_data.catalog.query import QueryResult, attached_catalog, frame_locked, run_locked
from trm_data.catalog.schema import TABLES as CATALOG_TABLES
from trm_data.catalog.schema import quote_identifier, quote_literal, schema_sql
from trm_data.errors import Note, QueryError
from trm_data.storage.root import Layout, Root, root_to_read
from trm_eval.tables.files import Only, open_tables, skipping_damaged
from trm_eval.tables.live import claims_table, live_runs, no_runs
from trm_eval.tables.named import load_query, query_text
from trm_eval.tables.parts import Parts, allow
from trm_eval.tables.recent import forget
from trm_eval.tables.schema import (
    CLAIMS,
    COMMENTS_OF_ONE_VIEW,
    EXPERIMENTS,
    NAMED_BY_EVALS,
    PUZZLE_TOKENS,
    RUN_STATUS,
    TABLES,
    VIEW_COMMENTS,
    comments,
    comments_of,
)
from trm_train.config.run import RunConfig, identity_hash
from trm_train.experiments.registry import Experiment, load_experiments
from trm_train.experiments.setting import Setting
from trm_train.experiments.sources import without_files
from trm_train.experiments.sweep import Sweep, read_sweeps, sweep_experiments

if TYPE_CHECKING:
    import polars


Found = TypeVar("Found")

ATTEMPTS = 3
"""Attempts to run a query while files of results are being replaced."""

SMALL = ("runs", "evals")
"""Tables also opened for queries that may show everything; the other tables are opened only if a query may refer to
them."""

VIEW = re.compile(r"^CREATE (?:VIEW|MACRO) (\w+)[^;]*? AS\s(.*?);$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"--.*")
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

SHOW_COMMENTS = ("duckdb_", "comment", "information_schema", "pg_", "show", "sqlite_")
"""Words of queries that may show comments or list views. Other queries skip the comments, which take most of the
time."""

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


def query_results(
    layout: Layout,
    sql: str,
    parameters: Sequence[object] = (),
    *,
    verify: bool = False,
    as_table: bool = False,
    most_rows: int | None = None,
    only: Only = Only(),  # noqa: B008
) -> QueryResult:
    """Run a query over results and catalog.

    Args:
        layout: The root.
        sql: A query, or `@name` for one of `named_queries`.
        parameters: Values for each `?` in the query.
        verify: Verify every file that is read, even if it was verified before.
        as_table: Return an Arrow table instead of rows.
        most_rows: Maximum number of rows in an Arrow table; further rows are not fetched.
        only: Scope of the query, if known; files outside the scope are not opened.

    Raises:
        QueryError: The SQL cannot be run, or the named query does not exist.
        CorruptFileError: A file has changed since it was written.
    """

    def read(connection: duckdb.DuckDBPyConnection) -> QueryResult:
        return run_locked(connection, text, parameters, as_table=as_table, most_rows=most_rows)

    text = query_text(sql)
    found, problems = _read(layout, text, read, again=verify, only=only)
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
        found, problems = _read(layout, text, lambda connection: frame_locked(connection, text))
    damaged = [problem for problem in problems if not isinstance(problem, Note)]
    if damaged and not skip_damaged:
        raise QueryError("; ".join(damaged) + " (skip_damaged=True skips them)")
    for note in problems:
        if isinstance(note, Note):
            warnings.warn(f"left out: {note}", stacklevel=2)
    return found


def _read(
    layout: Layout,
    sql: str,
    read: Callable[[duckdb.DuckDBPyConnection], Found],
    *,
    again: bool = False,
    only: Only = Only(),  # noqa: B008
) -> tuple[Found, list[str]]:
    """Read from the results, and open them again if files were replaced meanwhile; also return what was left out.

    A query that fails is run again with all views, so that the error message can suggest their names.
    """
    everything, left = False, ATTEMPTS
    while True:
        left -= 1
        try:
            with open_results(layout, sql, again=again, everything=everything, only=only) as (
                connection,
                problems,
            ):
                return read(connection), problems
        except QueryError as error:
            gone = isinstance(error.__cause__, duckdb.IOException)
            refused = error.__cause__ is None
            if not left or refused or (everything and not gone):
                raise
            everything = everything or not gone
            forget(layout)


def query_evaluation(layout: Layout, name: str, evaluation: str) -> QueryResult:
    """Run a named query for one evaluation; columns that identify the evaluation are left out."""
    sql = load_query(name).rstrip().rstrip(";")
    found = query_results(layout, f"SELECT * FROM (\n{sql}\n) WHERE evaluation = ?", [evaluation])
    kept = [position for position, column in enumerate(found.columns) if column not in WHICH_EVALUATION]
    return QueryResult([found.columns[i] for i in kept], [tuple(row[i] for i in kept) for row in found.rows])


@contextmanager
def open_results(
    layout: Layout,
    sql: str,
    *,
    again: bool = False,
    everything: bool = False,
    only: Only = Only(),  # noqa: B008
) -> Generator[tuple[duckdb.DuckDBPyConnection, list[str]], None, None]:
    """Open an in-memory connection with the views over runs, results and catalog; also yield what was left out.

    Views that the query cannot refer to are not created unless `everything` is set, because creating all takes longer
    than most queries. Tables that it cannot refer to are empty, so that their files need not be fetched from a bucket.
    """
    left = ATTEMPTS
    while True:
        left -= 1
        with closing(duckdb.connect()) as connection, ExitStack() as stack:
            try:
                problems = _make_views(
                    connection, stack, layout, sql, again=again, everything=everything, only=only
                )
            except duckdb.IOException as error:  # a file was replaced since it was listed
                if left:
                    forget(layout)
                    continue
                raise QueryError(
                    f"{layout.results.where('')}: a file is gone while it is opened: {error}"
                ) from error
            yield connection, problems
            return


def _make_views(
    connection: duckdb.DuckDBPyConnection,
    stack: ExitStack,
    layout: Layout,
    sql: str,
    *,
    again: bool,
    everything: bool,
    only: Only,
) -> list[str]:
    """Create the views of `open_results`; the catalog stays attached until the stack is closed."""
    text = files("catalogs").joinpath("results.sql").read_text("utf-8")
    named = _named_by(sql, text)
    shows = everything or any(word in sql.lower() for word in SHOW_COMMENTS)
    wanted = {table for table in TABLES if f"{table}_files" in named or (shows and table in SMALL)}
    if not wanted.isdisjoint(NAMED_BY_EVALS) or "tokens_live" in named:
        wanted.add("evals")  # its rows say which files count
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")  # it would mix with printed output
    problems: list[str] = []
    if shows or "catalog" in named or not _words(sql).isdisjoint(CATALOG_TABLES):
        problems += stack.enter_context(_catalog(connection, layout))
    # A query about known evaluations needs no runs; other queries also report which runs cannot be read.
    needs_runs = only.evaluations is None or not named.isdisjoint({"runs", "train_metrics_live"})
    runs, folders, unread = live_runs(layout) if needs_runs else (no_runs(), [], [])
    problems += unread
    connection.register("runs_live", runs)
    experiments = EXPERIMENTS.empty_table()
    if "experiments_live" in named:
        sweeps, unread = read_sweeps(layout)
        experiments = experiment_table(sweeps)
        problems += unread
    connection.register("experiments_live", experiments)
    connection.register("claims_live", claims_table() if "claims_live" in named else CLAIMS.empty_table())
    opened, missing = open_tables(layout, wanted, folders, again=again, only=only)
    for table, found in opened.items():
        if isinstance(found, Parts):
            found.register(connection, table)
        else:
            connection.register(table, found)
    allow(connection, [found for found in opened.values() if isinstance(found, Parts)])
    tokens, unread = _tokens(layout, opened["evals_files"]) if "tokens_live" in named else (None, [])
    connection.register("tokens_live", PUZZLE_TOKENS.empty_table() if tokens is None else tokens)
    for statement in VIEW.finditer(COMMENT.sub("", text)):
        if shows or statement[1] in named:
            connection.execute(statement[0])
    if shows:
        _comment(connection, text)
    return problems + missing + unread


def _tokens(layout: Layout, evals: object) -> tuple[pa.Table, list[str]]:
    from trm_eval.tables.live import token_table  # which brings the loader

    assert isinstance(evals, pa.Table)
    return token_table(layout, evals)


def _named_by(sql: str, views: str) -> set[str]:
    """Return the words of a query and, recursively, of the views that it names: every table that it may refer to."""
    bodies = _words_of_views(views)
    named, new = set[str](), _words(sql)
    while new:
        named |= new
        new = set[str]().union(*(bodies.get(name, ()) for name in new)) - named
    return named


@cache
def _words_of_views(views: str) -> dict[str, set[str]]:
    """Return the words in the body of each view."""
    return {name: _words(body) for name, body in VIEW.findall(COMMENT.sub("", views))}


def _words(sql: str) -> set[str]:
    return set(re.findall(r"\w+", sql.lower()))


def _comment(connection: duckdb.DuckDBPyConnection, views: str) -> None:
    """Add a comment to every column of every view: from the schemas, or from the catalog's tables."""
    known = connection.execute(
        "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE database_name = 'catalog'"
    ).fetchall()
    texts = {(table, column): text for table, column, text in known if text}
    texts |= {(table, column): text for table in TABLES for column, text in comments(table).items()}
    for of, schema in (
        ("experiments", EXPERIMENTS),
        ("runs", RUN_STATUS),
        ("puzzle_tokens", PUZZLE_TOKENS),
        ("claims", CLAIMS),
    ):
        texts |= {(of, column): text for column, text in comments_of(schema).items()}
    columns = connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = 'memory' AND NOT internal"
    ).fetchall()
    reads = {table: _named_by(table, views) for table in {table for table, _ in columns}}
    for table, column in columns:
        alone = COLUMN_OF_PAIR.sub("", column)
        taken_over = (texts.get((of, alone)) for of in reversed(COMMENTED) if of in reads[table])
        text = (
            COMMENTS_OF_ONE_VIEW.get((table, column))
            or texts.get((table.removeprefix("all_"), column))
            or VIEW_COMMENTS.get(alone)
            or next(filter(None, taken_over), None)
        )
        if text:
            target = f"{quote_identifier(table)}.{quote_identifier(column)}"
            connection.execute(f"COMMENT ON COLUMN {target} IS {quote_literal(text)}")


@contextmanager
def _catalog(connection: duckdb.DuckDBPyConnection, layout: Layout) -> Generator[list[str], None, None]:
    """Attach the dataset catalog as `catalog`, and create views of its tables; empty without datasets.

    Yields:
        A line for each dataset that is left out.
    """
    with ExitStack() as stack:
        problems: list[str] = []
        if layout.dataset_names():
            problems = stack.enter_context(attached_catalog(connection, layout))
        else:
            connection.execute("ATTACH ':memory:' AS catalog")
            connection.execute("USE catalog")
            connection.execute(schema_sql())
            connection.execute("USE memory")
        for table in CATALOG_TABLES:
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM catalog.{table}")
        yield problems


def experiment_table(sweeps: Iterable[Sweep] = ()) -> pa.Table:
    """Return all experiments and the points of sweeps, a row for each scale and data."""
    rows = [
        _row(item, setting, config)
        for item in {**load_experiments(), **sweep_experiments(sweeps)}.values()
        for setting in item.settings
        for config in [item.make(setting), without_files(item.make(setting))]
        if config is not None
    ]
    return pa.Table.from_pylist(rows, schema=EXPERIMENTS)


def _row(item: Experiment, setting: Setting, config: RunConfig) -> dict[str, Any]:
    alias_of, quantity = item.alias_of(setting), item.quantity
    return {
        "experiment": item.name,
        "experiment_group": item.group,
        "scale": setting.scale,
        "data": setting.data,
        "alias_of": alias_of,
        "runs_of": alias_of or item.runs_of or item.name,
        "identity": identity_hash(config),
        "dataset": config.data.label,
        "total_steps": config.total_steps,
        "varies": item.own(config),
        "quantity": None if quantity is None else quantity.name,
        "value": None if quantity is None else quantity.of(config),
        "unit": None if quantity is None else quantity.unit,
        "series": item.series or None,
        "supervision_steps": getattr(config.model, "halt_max_steps", None),
        "question": item.summary,
    }
