"""Shared by pages: the root, cached queries, the choice of runs, and formatting.

Names of runs, tasks and files are whatever somebody wrote. They are shown as text: in tables, in drawings, and in words
through `plain`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import polars as pl
import streamlit as st

from trm_data.errors import DataError
from trm_data.show.drawing import Drawing
from trm_data.show.picture import svg
from trm_data.storage.root import Layout, resolve_root
from trm_eval.errors import EvalError
from trm_eval.report.ask import ask
from trm_eval.report.blocks import Query
from trm_eval.report.canvas import GRID, INK, PAPER
from trm_eval.tables.files import tested_runs
from trm_train.errors import TrainError

NAMES_SQL = """\
SELECT run
FROM runs
ORDER BY state = 'running' DESC NULLS LAST, heartbeat DESC NULLS LAST, run"""
"""It reads no metrics and evaluations, which are most of the files of a root."""

CURVES, EVALUATIONS, PUZZLES, SCALING = "curves", "evaluations", "puzzles", "scaling"
FRESH_S = 4
"""How long an answer of the tables is reused (s)."""
FOLLOW_S = 5
"""A page that follows runs asks so often (s)."""
SHOWN_RUNS = 6
"""Runs that are compared before any are chosen."""
Found = TypeVar("Found")
DRAWING_WIDTH, SMALLEST_CELL, LARGEST_CELL = 240, 9, 36
"""Of the drawing of a puzzle (pixels)."""
NIGHT = {INK: "#e5e7eb", GRID: "#374151", PAPER: "#0e1117"}
"""Ink, lines and paper of figures on Streamlit's dark pages."""


@st.cache_resource(show_spinner=False)
def _layout(root: str | None) -> Layout:
    return resolve_root(root)


def layout() -> Layout:
    """The root that is served."""
    return _layout(os.environ.get("TRM_ROOT"))


@st.cache_resource(ttl=FRESH_S, max_entries=100, show_spinner=False)
def _kept(root: str, name: str, arguments: str, _find: Callable[[list[str]], Any]) -> tuple[Any, list[str]]:
    problems: list[str] = []
    return _find(problems), problems


def fresh(find: Callable[..., Found], *arguments: Any) -> Found:
    """What a function gives for the root, these arguments and a list of problems, at most `FRESH_S` old.

    Problems are shown.
    """
    root = layout()
    name = f"{find.__module__}.{find.__qualname__}"
    found, problems = _kept(
        root.place, name, repr(arguments), lambda problems: find(root, *arguments, problems)
    )
    for problem in problems:
        st.warning(f"left out: {plain(problem)}")
    return found


@contextmanager
def errors_shown() -> Generator[None, None, None]:
    """Say on the page what a user can act on."""
    try:
        yield
    except (DataError, EvalError, TrainError, OSError) as error:
        st.error(plain(str(error)))


def plain(text: str) -> str:
    """Text that Streamlit shows as it is, in places that it reads as Markdown."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


def names_of_runs(layout: Layout, problems: list[str]) -> list[str]:
    """The names of all runs, tested runs first, then those that run, then the newest."""
    tested = tested_runs(layout)
    names = [row["run"] for row in ask(layout, "names of the runs", NAMES_SQL, [], problems).rows]
    return sorted(names, key=lambda name: name not in tested)


def names_of_tested(layout: Layout, problems: list[str]) -> list[str]:
    """The names of the runs that have evaluations, in the same order."""
    tested = tested_runs(layout)
    return [name for name in names_of_runs(layout, problems) if name in tested]


def choose_runs(page: str) -> list[str]:
    """The runs that are compared: those of the address, or chosen before, or the newest."""
    known = fresh(names_of_runs)
    key = f"compared on {page}"  # a key that two pages share loses its value on the way
    if key not in st.session_state:
        before = st.query_params.get_all("run") or st.session_state.get("chosen") or known[:SHOWN_RUNS]
        st.session_state[key] = [run for run in before if run in known]
    chosen = st.multiselect("Runs", known, key=key, placeholder="Choose runs", on_change=_choose, args=(key,))
    st.session_state["chosen"] = chosen
    return chosen


def _choose(key: str) -> None:
    st.query_params["run"] = st.session_state[key]


def link(page: str, label: str) -> None:
    """A way to another page."""
    st.page_link(st.session_state["pages"][page], label=label, icon=":material/arrow_forward:")


def show_figure(title: str, svg: bytes) -> None:
    """A figure as wide as there is room, in the reader's light or dark."""
    text = svg.decode("utf-8")
    if st.context.theme.type == "dark":
        for colour, own in NIGHT.items():
            text = text.replace(f": {colour}", f": {own}")
    st.markdown(f"**{plain(title)}**")
    st.image(text, width="stretch")


def show_drawing(title: str, drawing: Drawing) -> None:
    """A puzzle, its cells as large as a small grid allows."""
    columns = max(drawing.shape[1], 1)
    cell = min(max(DRAWING_WIDTH // columns, SMALLEST_CELL), LARGEST_CELL)
    st.image(svg(drawing, cell=cell), caption=plain(title), width="content")


def show_sql(*queries: Query) -> None:
    """The SQL that made what stands above."""
    with st.expander("SQL"):
        for query in queries:
            st.caption(plain(query.says))
            st.code(query.sql, language="sql", wrap_lines=True)


def frame_of(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> pl.DataFrame:
    """Some columns of rows, as Streamlit shows tables; those without any value are left out."""
    there = [name for name in columns if any(row[name] is not None for row in rows)]
    return pl.DataFrame([{name: row[name] for name in there} for row in rows], infer_schema_length=None)


def table_key(name: str, identities: Sequence[object]) -> str:
    """The key of a table with these rows: what was selected in one with other rows means nothing."""
    return f"{name}-{hashlib.sha256(repr(list(identities)).encode()).hexdigest()[:16]}"


def selected(event: Any) -> list[int]:
    """Places of the rows that are selected in a table."""
    return list(event.selection.rows)
