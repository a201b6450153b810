"""Interactive prompt of `trm-eval sql`, with history and completion by GNU readline (or editline).

A query ends with `;` or an empty line; `@name` and `.command` end with their line. Every query opens the root again, so
results include the current state of active runs.
"""

from __future__ import annotations

import re
import readline
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import get_args

import duckdb

from trm_data.commands.answer import give_answer
from trm_data.errors import DataError, QueryError
from trm_data.show.render import Form
from trm_data.storage.cache import user_cache
from trm_data.storage.root import Layout
from trm_eval.errors import EvalError
from trm_eval.tables.named import named_queries
from trm_eval.tables.query import query_results
from trm_eval.tables.views import list_views

HISTORY = "sql_history"
"""History file in the user's cache folder."""
HISTORY_LINES = 2000
WAYS_ON = "; .wide or .format vertical shows all"
FIRST, FURTHER = "trm> ", "...> "
FORMS: tuple[Form, ...] = get_args(Form)
KEYWORDS_SQL = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'reserved' ORDER BY 1"
HELP = """\
SELECT ...;            a query, over as many lines as you like; it ends with ; or an empty line
@NAME                  a query that ships with the package
.queries               list those
.tables [NAME]         list tables, or the columns of one
.format FORM           print answers as table, vertical, csv, json or markdown
.wide                  tables with all columns and rows, however long the lines; again: as much as there is room for
.out FILE              write the next answer to a file (.format parquet needs one)
.quit, Ctrl-D          leave; Ctrl-C forgets what was typed, or ends a query"""


class Completion:
    """Readline completer of views, columns, `@queries`, `.commands` and SQL keywords."""

    def __init__(self) -> None:
        views = list_views()
        columns = {column.name for view in views.values() for column in view.columns}
        queries = {f"@{name}" for name in named_queries()}
        words = {".queries", ".tables", ".format", ".wide", ".out", ".help", ".quit"}
        self.names = sorted({*views, *columns, *queries, *words})
        self._keywords = [name for (name,) in duckdb.execute(KEYWORDS_SQL).fetchall()]
        self._found: list[str] = []

    def matches(self, text: str) -> list[str]:
        """Return the completions of a prefix; keywords take the case of the prefix."""
        found = [name for name in self.names if name.startswith(text.lower())]
        if text and not text.startswith(("@", ".")):
            words = (word.upper() if text.isupper() else word for word in self._keywords)
            found += [word for word in words if word.startswith(text) and word not in found]
        return found

    def __call__(self, text: str, state: int) -> str | None:
        """Return the completion with index `state`, or None after the last one, as readline requires."""
        if state == 0:
            self._found = self.matches(text)
        return self._found[state] if state < len(self._found) else None


class Prompt:
    """Reads queries and prints their results.

    Args:
        layout: Root of the results.
        form: Initial output format; `.format` changes it.
        wide: Whether tables initially have all columns and rows; `.wide` changes this.
        verify: Check every file that is read, even if an earlier check succeeded.
    """

    def __init__(self, layout: Layout, form: Form, *, wide: bool, verify: bool) -> None:
        self._layout = layout
        self._form: Form = form
        self._wide = wide
        self._out: str | None = None
        self._verify = verify

    def run(self) -> None:
        """Answer queries until the user leaves."""
        while True:
            try:
                text = self._read()
                if text is None:
                    print()
                    return
                if text in (".quit", ".exit"):
                    return
                self._answer(text)
            except KeyboardInterrupt:
                print()
            except (DataError, EvalError, OSError) as error:
                print(f"trm-eval: {error}", file=sys.stderr)

    def _read(self) -> str | None:
        """Read a whole query or command; return None at the end of input."""
        lines: list[str] = []
        while True:
            try:
                line = input(FURTHER if lines else FIRST)
            except EOFError:
                return None
            if not lines and re.match(r"\s*[@.]\w", line):
                return line.strip().removesuffix(";").rstrip()
            if line.strip():
                lines.append(line)
            if lines and (not line.strip() or line.rstrip().endswith(";")):
                return "\n".join(lines).strip()

    def _answer(self, text: str) -> None:
        if text.startswith("."):
            self._do(text)
            return
        if self._form == "parquet" and self._out is None:
            raise QueryError(".format parquet: no file. Use .out FILE first")
        as_table = self._form == "parquet"
        found = query_results(self._layout, text, verify=self._verify, as_table=as_table)
        give_answer(found, self._form, self._out, wide=self._wide, hint=WAYS_ON)
        if self._out is not None:
            print(f"wrote {self._out}")
            self._out = None
        for problem in found.problems:
            print(f"trm-eval: left out: {problem}", file=sys.stderr)

    def _do(self, text: str) -> None:
        """Execute a dot command."""
        from trm_eval.commands.sql import Queries, Tables

        try:
            word, *values = shlex.split(text)
        except ValueError as error:
            raise QueryError(f"{text}: {error}") from error
        if word == ".help":
            print(HELP)
        elif word == ".queries":
            Queries(name=values[0] if values else None).run()
        elif word == ".tables":
            Tables(name=values[0] if values else None).run()
        elif word == ".format" and len(values) == 1 and values[0] in FORMS:
            self._form = values[0]
        elif word == ".wide" and not values:
            self._wide = not self._wide
            print(f"tables {'have all columns and rows' if self._wide else 'as wide as the terminal'}")
        elif word == ".format":
            raise QueryError(f".format: one of {', '.join(FORMS)}")
        elif word == ".out" and len(values) == 1:
            self._out = values[0]
        else:
            raise QueryError(f"{text}: unknown command (.help lists them)")


def ask(layout: Layout, *, form: Form, wide: bool, verify: bool) -> int:
    """Answer queries at a prompt until the user leaves; return the exit code."""
    readline.set_completer(Completion())
    readline.set_completer_delims(" \t\n,;()=<>+-*/'\"")
    editline = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if editline else "tab: complete")
    history = user_cache() / HISTORY
    with suppress(OSError):  # missing or unreadable: start without a history
        readline.read_history_file(history)
    readline.set_history_length(HISTORY_LINES)
    print(f"SQL over {layout.place}, read-only; .help says how, Tab completes, Ctrl-D leaves")
    try:
        Prompt(layout, form, wide=wide, verify=verify).run()
    finally:
        _keep(history)
    return 0


def _keep(history: Path) -> None:
    """Save the history, readable by this user only."""
    try:
        history.parent.mkdir(parents=True, exist_ok=True)
        history.touch(mode=0o600)
        readline.write_history_file(history)
    except OSError as error:
        print(f"trm-eval: {history}: the history could not be saved ({error})", file=sys.stderr)
