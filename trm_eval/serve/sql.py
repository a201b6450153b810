"""Page for SQL queries."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import streamlit as st

from trm_data.errors import DataError
from trm_data.storage.root import Layout
from trm_eval.errors import EvalError
from trm_eval.serve.parts import layout, plain
from trm_eval.tables.named import load_query, named_queries
from trm_eval.tables.query import query_results

MOST_ROWS = 10_000
"""Maximum number of result rows that a page shows."""
OWN = "(your own)"
FIRST = "SELECT run, state, step, total_steps FROM runs"


@dataclass(frozen=True)
class Answer:
    """Result of a query.

    Attributes:
        table: First rows of the result.
        cut: Whether there are more rows.
        problems: A line for each thing that could not be read.
    """

    table: pa.Table
    cut: bool
    problems: tuple[str, ...]


def answer(layout: Layout, sql: str) -> Answer:
    """Return the first rows of a query."""
    found = query_results(layout, sql, as_table=True, most_rows=MOST_ROWS + 1)
    assert found.table is not None
    return Answer(found.table.slice(0, MOST_ROWS), found.table.num_rows > MOST_ROWS, found.problems)


def show() -> None:
    """Show the page."""
    st.subheader("SQL")
    says = named_queries()
    st.selectbox(
        "Queries that ship with the package",
        [OWN, *says],
        key="named",
        format_func=lambda name: name if name == OWN else f"@{name}: {says[name]}",
        on_change=_take,
    )
    st.session_state.setdefault("query", FIRST)
    query = st.text_area("Query", key="query", height=220)
    if st.button("Run", type="primary"):
        st.session_state["asked"] = query
    if asked := st.session_state.get("asked"):
        _answer(asked)
    st.caption("`trm-eval tables` lists the tables and their columns.")


def _take() -> None:
    name = st.session_state["named"]
    if name != OWN:
        st.session_state["query"] = load_query(name)
        st.session_state["asked"] = st.session_state["query"]


def _answer(sql: str) -> None:
    try:
        with st.spinner("Asking ..."):
            found = answer(layout(), sql)
    except (DataError, EvalError, OSError) as error:
        st.error("The query was not answered.")
        st.code(str(error), language=None, wrap_lines=True)
        return
    for problem in found.problems:
        st.warning(f"left out: {plain(problem)}")
    st.dataframe(found.table, hide_index=True)
    more = f"the first {MOST_ROWS:,} rows; there are more" if found.cut else f"{found.table.num_rows:,} rows"
    st.caption(f"{more}. The same: `trm-eval sql`")
