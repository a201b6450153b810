"""Shared by all pages: root, cached queries, selection of runs, and formatting.

Names of runs, tasks and files are untrusted. They are shown as plain text: in tables, in drawings, and elsewhere
through `plain`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

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
from trm_train.errors import TrainError

NAMES_SQL = """\
SELECT run, run IN (SELECT run FROM all_evals) AS tested
FROM runs
ORDER BY tested DESC, state = 'running' DESC NULLS LAST, heartbeat DESC NULLS LAST, run"""

CURVES, EVALUATIONS, PUZZLES = "curves", "evaluations", "puzzles"
FRESH_S = 4
"""Cache lifetime of query results (s)."""
FOLLOW_S = 5
"""Refresh interval of a page that follows runs (s)."""
SHOWN_RUNS = 6
"""Number of runs compared by default."""
Found = TypeVar("Found")
DRAWING_WIDTH, SMALLEST_CELL, LARGEST_CELL = 240, 9, 36
"""Width of a puzzle's drawing, and limits of the cell size (pixels)."""
NIGHT = {INK: "#e5e7eb", GRID: "#374151", PAPER: "#0e1117"}
"""Replacement colours for text, lines and background of figures on Streamlit's dark theme."""


@st.cache_resource(show_spinner=False)
def _layout(root: str | None) -> Layout:
    return resolve_root(root)


def layout() -> Layout:
    """Return the root that is served."""
    return _layout(os.environ.get("TRM_ROOT"))


@st.cache_resource(ttl=FRESH_S, max_entries=100, show_spinner=False)
def _kept(root: str, name: str, arguments: str, _find: Callable[[list[str]], Any]) -> tuple[Any, list[str]]:
    problems: list[str] = []
    return _find(problems), problems


def fresh(find: Callable[..., Found], *arguments: Any) -> Found:
    """Call a function with the root, these arguments and a list of problems; the result is cached for `FRESH_S`.

    Problems are shown on the page.
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
    """Context that shows expected errors on the page."""
    try:
        yield
    except (DataError, EvalError, TrainError, OSError) as error:
        st.error(plain(str(error)))


def plain(text: str) -> str:
    """Escape text for places where Streamlit reads Markdown."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


def names_of_runs(layout: Layout, tested: bool, problems: list[str]) -> list[str]:
    """Return the names of all or only the tested runs: tested runs first, then running ones, then the newest."""
    rows = ask(layout, "names of the runs", NAMES_SQL, [], problems).rows
    return [row["run"] for row in rows if row["tested"] or not tested]


def choose_runs(page: str) -> list[str]:
    """Return the runs to compare: those of the URL, or the previous choice, or the newest."""
    known = fresh(names_of_runs, False)
    key = f"compared on {page}"  # a key shared by two pages would lose its value
    if key not in st.session_state:
        before = st.query_params.get_all("run") or st.session_state.get("chosen") or known[:SHOWN_RUNS]
        st.session_state[key] = [run for run in before if run in known]
    chosen = st.multiselect("Runs", known, key=key, placeholder="Choose runs", on_change=_choose, args=(key,))
    st.session_state["chosen"] = chosen
    return chosen


def _choose(key: str) -> None:
    st.query_params["run"] = st.session_state[key]


def link(page: str, label: str) -> None:
    """Show a link to another page."""
    st.page_link(st.session_state["pages"][page], label=label, icon=":material/arrow_forward:")


def show_figure(title: str, svg: bytes) -> None:
    """Show a figure at full width, in light or dark mode."""
    text = svg.decode("utf-8")
    if st.context.theme.type == "dark":
        for colour, own in NIGHT.items():
            text = text.replace(f": {colour}", f": {own}")
    st.markdown(f"**{plain(title)}**")
    st.image(text, width="stretch")


def show_drawing(title: str, drawing: Drawing) -> None:
    """Show a puzzle, with large cells for a small grid."""
    columns = max(drawing.shape[1], 1)
    cell = min(max(DRAWING_WIDTH // columns, SMALLEST_CELL), LARGEST_CELL)
    st.image(svg(drawing, cell=cell), caption=plain(title), width="content")


def show_sql(*queries: Query) -> None:
    """Show the SQL of the content above."""
    with st.expander("SQL"):
        for query in queries:
            st.caption(plain(query.says))
            st.code(query.sql, language="sql", wrap_lines=True)


def choose_rows(
    name: str,
    rows: Sequence[dict[str, Any]],
    columns: Sequence[str],
    identities: Sequence[object],
    config: dict[str, Any],
    *,
    percents: Sequence[str] = (),
    several: bool = True,
    height: int | Literal["auto"] = "auto",
) -> list[int]:
    """Show a table; return the positions of the selected rows.

    Args:
        name: Name of the table in this app.
        rows: The rows.
        columns: Columns to show; those without any value are left out.
        identities: What tells these rows from others: a selection does not carry over to other rows.
        config: Streamlit's configuration of columns.
        percents: Columns of shares, shown in percent.
        several: Whether several rows can be selected.
        height: Height of the table in pixels.
    """
    there = [column for column in columns if any(row[column] is not None for row in rows)]
    frame = pl.DataFrame([{each: row[each] for each in there} for row in rows], infer_schema_length=None)
    event = st.dataframe(
        frame.with_columns(pl.col(column) * 100 for column in percents if column in there),
        key=f"{name}-{hashlib.sha256(repr(list(identities)).encode()).hexdigest()[:16]}",
        hide_index=True,
        on_select="rerun",
        selection_mode="multi-row" if several else "single-row",
        height=height,
        column_config=config,
    )
    return list(event.selection.rows)
