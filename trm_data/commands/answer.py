"""Output of `trm-data sql` and `trm-eval sql`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from tyro.conf import arg

from trm_data.command import emit
from trm_data.errors import QueryError
from trm_data.show.render import DRAWN, Form, print_result, print_table

if TYPE_CHECKING:
    from trm_data.catalog.query import QueryResult
    from trm_data.catalog.schema import View

Out = Annotated[
    str | None,
    arg(
        metavar="FILE",
        help="Write the answer to a file; replaces an existing file.",
        help_behavior_hint="",
    ),
]


FormOption = Annotated[
    Form | None,
    arg(
        name="format",
        metavar="{" + ",".join(get_args(Form)) + "}",
        help="Output format (default: from the extension of --out, else table). vertical has a line for each column.",
        help_behavior_hint="",
    ),
]

ENDINGS: Mapping[str, Form] = {
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".parquet": "parquet",
    ".txt": DRAWN,
}
"""Default output format by file name extension."""


def choose_form(named: Form | None, out: str | None, *, as_json: bool) -> Form:
    """Return the output format: the requested one, else from the file name, else a table."""
    if as_json and named not in (None, "json"):
        raise QueryError(f"--json and --format {named}: one of them")
    if as_json or named is not None:
        return named or "json"
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


def give_answer(found: QueryResult, form: Form, out: str | None, *, wide: bool = False) -> None:
    """Print the result of a query, or write it to a file atomically.

    Args:
        found: Result of the query.
        form: Output format.
        out: File to write; None prints the result.
        wide: Print all rows and columns, even if they do not fit the terminal.
    """
    if out is None:
        print_result(found, form, wide=wide, hint="; --wide or --format vertical shows all")
        return
    from trm_data.show.render import result_bytes
    from trm_data.storage.atomic import write_bytes

    path = Path(out).expanduser()
    if path.is_dir():
        raise QueryError(f"--out {out}: is a folder; name a file in it")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, result_bytes(found, form))
    rows = len(found.rows) if found.table is None else found.table.num_rows
    print(f"{out}: {rows:,} row{'s' * (rows != 1)}, {form}")
