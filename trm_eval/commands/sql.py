"""`trm-eval sql`, `queries`, `tables` and `duckdb`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, get_args

from tyro.conf import Positional, arg

from trm_data.command import Json, Root, SkipDamaged, Wide, emit, ending_at_once, say_what_is_left_out
from trm_data.errors import QueryError
from trm_data.show.render import DRAWN, OutputFormat, QueryResult, print_result, print_table
from trm_data.storage.root import root_to_read

Out = Annotated[
    str | None,
    arg(
        metavar="FILE",
        help="Write the answer to a file; replaces an existing file.",
        help_behavior_hint="",
    ),
]


FormatOption = Annotated[
    OutputFormat | None,
    arg(
        name="format",
        metavar="{" + ",".join(get_args(OutputFormat)) + "}",
        help="Output format (default: from the extension of --out, else table).",
        help_behavior_hint="",
    ),
]

FORMS: Mapping[str, OutputFormat] = {
    "": DRAWN, ".csv": "csv", ".json": "json", ".md": "markdown", ".parquet": "parquet", ".txt": DRAWN,
}  # fmt: skip
"""Default output format by file name extension."""


def choose_format(form: OutputFormat | None, out: str | None, *, as_json: bool) -> OutputFormat:
    """Return the output format: the requested one, else from the file name, else a table."""
    if as_json and form not in (None, "json"):
        raise QueryError(f"--json and --format {form}: one of them")
    if as_json or form is not None:
        return form or "json"
    if (ending := Path(out or "").suffix.lower()) not in FORMS:
        raise QueryError(
            f"--out {out}: unknown file name ending (expected {', '.join(filter(None, FORMS))}). "
            "Choose one, or name the format with --format."
        )
    return FORMS[ending]


def give_answer(result: QueryResult, form: OutputFormat, out: str | None, *, wide: bool) -> None:
    """Print the result of a query, or write it to a file atomically; `wide` prints all rows and columns."""
    if out is None:
        print_result(result, form, wide=wide, hint="; --wide shows all")
        return
    from trm_data.show.render import result_bytes
    from trm_data.storage.atomic import write_bytes

    path = Path(out).expanduser()
    if path.is_dir():
        raise QueryError(f"--out {out}: is a folder; name a file in it")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, result_bytes(result, form))
    rows = len(result.rows) if result.table is None else result.table.num_rows
    print(f"{out}: {rows:,} row{'s' * (rows != 1)}, {form}")


@dataclass(frozen=True, kw_only=True)
class Sql:
    """Query results and the dataset catalog with SQL, read-only.

    Views: runs and train_metrics (every run), evals and predictions (the newest of each request), predicted_puzzles
    (with properties of the puzzle), predicted_cells (every cell). Others are study (every experiment with runs and
    evaluations), votes and pass_at_k (ARC). `trm-eval tables` lists them, with every column and its unit.

    A query may be a name behind `@`: `trm-eval queries` lists the names. Without a query the command reads one from
    standard input, as in `trm-eval sql < FILE.sql`. For a prompt, write a file with `trm-eval duckdb` and open it with
    any DuckDB client.

    For example:

      trm-eval sql @accuracy_by_rating
      trm-eval sql "SELECT given, count(*) FROM predicted_cells WHERE wrong AND run LIKE 'quickstart%' GROUP BY ALL"
      trm-eval sql "SELECT run, exact_accuracy FROM evals" --format csv
      trm-eval sql @pareto --format parquet --out pareto.parquet
    """

    query: Annotated[Positional[str | None], arg(metavar="QUERY", help_behavior_hint="")] = None
    """SQL, or the name of a query behind `@` (default: standard input)."""
    form: FormatOption = None
    json: Json = False
    wide: Wide = False
    out: Out = None
    verify: bool = False
    """Check every file, also files that were checked before and have not changed."""
    skip_damaged: SkipDamaged = False
    root: Root = None

    def run(self) -> int:
        """Run the query and print the result."""
        from trm_eval.tables.named import why_empty
        from trm_eval.tables.query import query_results, skipping_damaged

        layout = root_to_read(self.root)
        if self.query is None and sys.stdin.isatty():
            raise QueryError("no query (expected SQL or @NAME). trm-eval queries lists the named ones.")
        query = sys.stdin.read().strip() if self.query is None else self.query
        if not query:
            raise QueryError("no query in standard input; such as SELECT * FROM runs")
        form = choose_format(self.form, self.out, as_json=self.json)
        with skipping_damaged(self.skip_damaged), ending_at_once():
            found = query_results(layout, query, verify=self.verify, as_table=form == "parquet")
        give_answer(found, form, self.out, wide=self.wide)
        rows = found.rows if found.table is None else found.table
        if not len(rows) and (said := why_empty(query)) is not None:
            print(f"trm-eval: note: {said}", file=sys.stderr)
        return say_what_is_left_out("trm-eval", found.problems, skip=self.skip_damaged)


@dataclass(frozen=True, kw_only=True)
class Queries:
    """List the queries that ship with the package, or print one.

    For example:

      trm-eval queries
      trm-eval queries pareto
    """

    name: Annotated[Positional[str | None], arg(metavar="NAME", help_behavior_hint="")] = None
    """Query to print the SQL of (default: list all queries)."""

    def run(self) -> int:
        """Print the queries."""
        from trm_eval.tables.named import load_query, named_queries

        if self.name is not None:
            print(load_query(self.name.removeprefix("@")), end="")
            return 0
        queries = named_queries()
        width = max(map(len, queries))
        for name, answers in queries.items():
            print(f"@{name:<{width}}  {answers}")
        return 0


@dataclass(frozen=True, kw_only=True)
class Tables:
    """List the tables of SQL, or the columns of one table with types and units. Needs no root.

    For example:

      trm-eval tables
      trm-eval tables study
      trm-eval tables train_metrics --json
    """

    name: Annotated[Positional[str | None], arg(metavar="NAME", help_behavior_hint="")] = None
    """Table to print the columns of (default: list all tables)."""
    json: Json = False

    def run(self) -> int:
        """Print the tables or columns."""
        from trm_data.catalog.schema import find_view
        from trm_eval.tables.views import list_views

        views = list_views()
        if self.name is None:
            rows = [(view.name, view.says) for view in views.values()]
            emit(
                list(views.values()), partial(print_table, ["name", "what it says"], rows), as_json=self.json
            )
            return 0
        view = find_view(views, self.name)

        def said() -> None:
            print(view.says)
            rows = [(column.name, column.type, column.comment) for column in view.columns]
            print_table(["column", "type", "what it says"], rows)

        emit(view, said, as_json=self.json)
        return 0


@dataclass(frozen=True, kw_only=True)
class Duckdb:
    """Write all tables and views as one DuckDB file.

    The file has the tables of `trm-eval tables`, with a comment for every column. Predictions, candidates and traces
    are stored once, as all_predictions, all_votes and all_traces; derived tables (predictions, predicted_puzzles,
    disagreements and so on) are views.

    For example:

      trm-eval duckdb results.duckdb
      duckdb results.duckdb "SELECT experiment, exact_accuracy FROM study WHERE evaluation IS NOT NULL"
    """

    path: Annotated[Positional[str], arg(metavar="PATH")]
    """File to write, such as results.duckdb."""
    force: bool = False
    """Replace an existing file."""
    skip_damaged: SkipDamaged = False
    root: Root = None
    json: Json = False

    def run(self) -> int:
        """Write the file and print its contents."""
        from trm_eval.tables.export import write_duckdb
        from trm_eval.tables.query import skipping_damaged

        path = Path(self.path).expanduser()
        with skipping_damaged(self.skip_damaged):
            done = write_duckdb(root_to_read(self.root), path, force=self.force)
        rows, tables, size = sum(done.rows.values()), len(done.rows), f"{done.size_bytes / 1e6:.1f} MB"
        said = f"{path}: {rows:,} rows in {tables} tables, {len(done.views)} views, {size}"
        emit(done, said, as_json=self.json)
        return say_what_is_left_out("trm-eval", done.problems, skip=self.skip_damaged)
