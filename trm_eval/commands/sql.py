"""`trm-eval sql` and `queries`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from trm_data.command import Root, SkipDamaged, say_what_is_left_out
from trm_data.show.render import print_result
from trm_data.storage.root import resolve_root


@dataclass(frozen=True, kw_only=True)
class Sql:
    """Ask results and dataset catalog in SQL, read-only.

    Views: runs and train_metrics (of the runs as they are, evaluated or not), evals and predictions (the newest of
    each request), votes and pass_at_k (of ARC), all_evals, all_predictions, all_votes, predicted_puzzles (predictions
    with rating and clues), and the tables of trm-data sql. duckdb_columns() gives every column with its unit.
    @NAME runs a query that ships with the package; `trm-eval queries` lists them.

    For example:

      trm-eval sql @accuracy_by_rating
      trm-eval sql "SELECT run, exact_accuracy FROM evals" --format csv
      trm-eval sql "SELECT run, state, step, total_steps, heartbeat FROM runs"
    """

    query: Annotated[Positional[str], arg(metavar="QUERY")]
    format: Literal["table", "csv", "json"] = "table"
    verify: bool = False
    """Check every file that is read, also those that were found whole before and have not changed since."""
    skip_damaged: SkipDamaged = False
    root: Root = None

    def command(self) -> int:
        """Run the query and print the result."""
        from trm_eval.tables.query import query_results

        found = query_results(resolve_root(self.root), self.query, verify=self.verify)
        print_result(found, self.format)
        return say_what_is_left_out("trm-eval", found.problems, skip=self.skip_damaged)


@dataclass(frozen=True, kw_only=True)
class Queries:
    """List the queries that ship with the package, or print one."""

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
