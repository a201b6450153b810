"""`trm-data sql` and `tables`, and the output that they share with `trm-eval sql`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from tyro.conf import Positional, arg

from trm_data.command import Json, Root, SkipDamaged, Wide, emit, ending_at_once, say_what_is_left_out
from trm_data.errors import QueryError, UsageError
from trm_data.show.render import DRAWN, OutputFormat, QueryResult, print_result, print_table
from trm_data.storage.root import resolve_root

if TYPE_CHECKING:
    from trm_data.catalog.schema import View


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
        help="Output format (default: from the extension of --out, else table). vertical has a line for each column.",
        help_behavior_hint="",
    ),
]

ENDINGS: Mapping[str, OutputFormat] = {
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".parquet": "parquet",
    ".txt": DRAWN,
}
"""Default output format by file name extension."""


def choose_format(form: OutputFormat | None, out: str | None, *, as_json: bool) -> OutputFormat:
    """Return the output format: the requested one, else from the file name, else a table."""
    if as_json and form not in (None, "json"):
        raise QueryError(f"--json and --format {form}: one of them")
    if as_json or form is not None:
        return form or "json"
    if out is None or not (ending := Path(out).suffix):
        return DRAWN
    if ending.lower() not in ENDINGS:
        raise QueryError(
            f"--out {out}: unknown file name ending (expected {', '.join(ENDINGS)}). "
            "Choose one, or name the format with --format."
        )
    return ENDINGS[ending.lower()]


def read_query(text: str) -> str:
    """Return the SQL: the text itself, the content of a file `*.sql`, or stdin for `-`."""
    if text == "-":
        read, where = sys.stdin.read(), "standard input"
    elif text.endswith(".sql") and (
        len(text.split()) == 1 or ("\n" not in text and Path(text).expanduser().is_file())
    ):
        where = text
        try:
            read = Path(text).expanduser().read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise QueryError(
                f"{text}: a file with a query cannot be read ({getattr(error, 'strerror', None) or error})"
            ) from error
    else:
        return text
    if not read.strip():
        raise QueryError(f"no query in {where}; such as SELECT * FROM datasets")
    return read.strip()


def give_views(program: str, views: Mapping[str, View], name: str | None, *, as_json: bool) -> None:
    """Print the tables for SQL, or the columns of one table."""
    if name is None:
        rows = [(view.name, view.says) for view in views.values()]
        emit(list(views.values()), partial(print_table, ["name", "what it says"], rows), as_json=as_json)
        return
    from trm_data.catalog.schema import find_view

    emit(view := find_view(views, name, program), partial(_print_view, view), as_json=as_json)


def _print_view(view: View) -> None:
    print(view.says)
    rows = [(column.name, column.type, column.comment) for column in view.columns]
    print_table(["column", "type", "what it says"], rows)


def give_answer(result: QueryResult, form: OutputFormat, out: str | None, *, wide: bool = False) -> None:
    """Print the result of a query, or write it to a file atomically.

    Args:
        result: Result of the query.
        form: Output format.
        out: File to write; None prints the result.
        wide: Print all rows and columns, even if they do not fit the terminal.
    """
    if out is None:
        print_result(result, form, wide=wide, hint="; --wide or --format vertical shows all")
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
    form: FormatOption = None
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
        form = choose_format(self.form, self.out, as_json=self.json)
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
