"""`trm-data sql` and `tables`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from trm_data.command import Json, Root, SkipDamaged, Wide, say_what_is_left_out
from trm_data.command.signals import ending_at_once
from trm_data.commands.answer import FormOption, Out, choose_form, give_answer, give_views, read_query
from trm_data.errors import QueryError, UsageError
from trm_data.storage.root import resolve_root


@dataclass(frozen=True, kw_only=True)
class Sql:
    """Query the dataset catalog with SQL, read-only.

    Tables: datasets, sources, splits, shards, puzzles, augmentations, examples, identifiers, rejects. `trm-data
    tables` describes them, with every column and its unit.

    For example:

      trm-data sql "SELECT * FROM splits"
      trm-data sql question.sql --json
      trm-data sql "SELECT split, round(rating) r, count(*) FROM puzzles GROUP BY ALL ORDER BY ALL" --format csv
    """

    query: Annotated[Positional[str | None], arg(metavar="QUERY", help_behavior_hint="")] = None
    """SQL, or a file FILE.sql that has it; from standard input for `-`, or where a pipe has it."""
    form: FormOption = None
    json: Json = False
    wide: Wide = False
    out: Out = None
    skip_damaged: SkipDamaged = False
    root: Root = None

    def run(self) -> int:
        """Run the query and print the result."""
        from trm_data.catalog.query import query_catalog

        if self.query is None and sys.stdin.isatty():
            raise UsageError('no query given. Example: trm-data sql "SELECT * FROM datasets"')
        query = read_query(self.query or "-")
        if query.startswith("@"):
            raise UsageError(f"{query}: named queries belong to results: trm-eval sql {query}")
        form = choose_form(self.form, self.out, as_json=self.json)
        try:
            with ending_at_once():
                found = query_catalog(resolve_root(self.root), query, as_table=form == "parquet")
        except QueryError as error:
            if "does not exist" not in str(error):
                raise
            hint = "trm-data tables lists tables; those of runs and results are asked by trm-eval sql"
            raise QueryError(f"{error}\n({hint})") from error
        give_answer(found, form, self.out, wide=self.wide)
        return say_what_is_left_out("trm-data", found.problems, skip=self.skip_damaged)


@dataclass(frozen=True, kw_only=True)
class Tables:
    """List the tables of SQL, or the columns of one table with types and units. Needs no root.

    For example:

      trm-data tables
      trm-data tables puzzles
      trm-data tables splits --json
    """

    name: Annotated[Positional[str | None], arg(metavar="NAME", help_behavior_hint="")] = None
    """Table to print the columns of (default: list all tables)."""
    json: Json = False

    def run(self) -> int:
        """Print the tables or columns."""
        from trm_data.catalog.schema import list_tables

        give_views("trm-data", list_tables(), self.name, as_json=self.json)
        return 0
