"""`trm-eval sql`, `queries`, `tables` and `duckdb`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from trm_data.command import Json, Root, SkipDamaged, say_what_is_left_out
from trm_data.commands.answer import Out, give_answer
from trm_data.errors import QueryError
from trm_data.show.render import Form, print_table
from trm_data.storage.root import resolve_root


@dataclass(frozen=True, kw_only=True)
class Sql:
    """Ask results and dataset catalog in SQL, read-only.

    Views: runs and train_metrics (of the runs as they are, evaluated or not), evals and predictions (the newest of
    each request), predicted_puzzles (predictions with rating and clues), study (every experiment with its runs and
    tests), votes and pass_at_k (of ARC), and more: `trm-eval tables` lists them, with every column and its unit.
    @NAME runs a query that ships with the package; `trm-eval queries` lists them.
    Without a query it asks for some: a prompt with history and completion; or it reads one from a pipe.

    For example:

      trm-eval sql @accuracy_by_rating
      trm-eval sql "SELECT run, exact_accuracy FROM evals" --format csv
      trm-eval sql @pareto --format parquet --out pareto.parquet
      trm-eval sql
    """

    query: Annotated[Positional[str | None], arg(metavar="QUERY")] = None
    format: Form = "table"
    """csv, json, markdown and parquet are for files and other programs."""
    out: Out = None
    verify: bool = False
    """Check every file that is read, also those that were found whole before and have not changed since."""
    skip_damaged: SkipDamaged = False
    root: Root = None

    def command(self) -> int:
        """Run the query and print the result."""
        from trm_eval.tables.query import query_results

        layout, query = resolve_root(self.root), self.query
        if query is None and sys.stdin.isatty():
            from trm_eval.commands.prompt import ask

            if self.out is not None:
                raise QueryError("--out: is for one query; give it one, or type .out FILE at the prompt")
            return ask(layout, form=self.format, verify=self.verify)
        if query is None:
            query = sys.stdin.read().strip()
            if not query:
                raise QueryError("no query: give one, such as @evals, or a pipe that has one")
        as_table = self.format == "parquet"
        found = query_results(layout, query, verify=self.verify, as_table=as_table)
        give_answer(found, self.format, self.out)
        return say_what_is_left_out("trm-eval", found.problems, skip=self.skip_damaged)


@dataclass(frozen=True, kw_only=True)
class Queries:
    """List the queries that ship with the package, or print one.

    For example:

      trm-eval queries
      trm-eval queries pareto
    """

    name: Annotated[Positional[str | None], arg(metavar="NAME")] = None

    def command(self) -> int:
        """Print them."""
        from trm_eval.tables.query import load_query, named_queries

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
    """List what SQL can ask, or the columns of one table with their types and units. It needs no root.

    For example:

      trm-eval tables
      trm-eval tables study
      trm-eval tables train_metrics --json
    """

    name: Annotated[Positional[str | None], arg(metavar="NAME")] = None
    json: Json = False

    def command(self) -> int:
        """Print them."""
        from trm_eval.tables.views import find_view, list_views

        if self.name is None:
            views = list(list_views().values())
            if self.json:
                print(json.dumps([asdict(view) for view in views], indent=1))
            else:
                print_table(["table", "what it says"], [(view.name, view.says) for view in views])
            return 0
        view = find_view(self.name)
        if self.json:
            print(json.dumps(asdict(view), indent=1))
        else:
            print(view.says)
            rows = [(column.name, column.type, column.comment) for column in view.columns]
            print_table(["column", "type", "what it says"], rows)
        return 0


@dataclass(frozen=True, kw_only=True)
class Duckdb:
    """Write all that SQL can ask as one DuckDB file, which any client of DuckDB opens.

    Tables are those of `trm-eval tables`, as they are now, with a comment for every column. Predictions are stored
    once, as all_predictions; predictions, predicted_puzzles and disagreements are views over it.

    For example:

      trm-eval duckdb results.duckdb
      duckdb results.duckdb "SELECT experiment, exact_accuracy FROM study WHERE evaluation IS NOT NULL"
    """

    path: Annotated[Positional[str], arg(metavar="PATH")]
    force: bool = False
    """Replace a file that is there."""
    skip_damaged: SkipDamaged = False
    root: Root = None
    json: Json = False

    def command(self) -> int:
        """Write it and say what is in it."""
        from trm_eval.tables.export import write_duckdb

        path = Path(self.path).expanduser()
        done = write_duckdb(resolve_root(self.root), path, force=self.force)
        if self.json:
            print(json.dumps({**asdict(done), "path": str(done.path)}, indent=1))
        else:
            rows, tables = sum(done.rows.values()), len(done.rows)
            print(
                f"{path}: {rows:,} rows in {tables} tables, {len(done.views)} views, {done.size_bytes / 1e6:.1f} MB"
            )
        return say_what_is_left_out("trm-eval", done.problems, skip=self.skip_damaged)
