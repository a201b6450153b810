"""The script that Streamlit runs for every page and every click: the frame of all pages."""

from __future__ import annotations

import streamlit as st

from trm_eval.serve import curves, evaluations, puzzles, runs
from trm_eval.serve.parts import CURVES, EVALUATIONS, PUZZLES, errors_shown

TITLE = "trm"
STYLE = """
.stMainBlockContainer { padding-top: 4.5rem; padding-bottom: 2rem; }
"""
"""CSS: less space at the top than Streamlit's default."""


def show_page() -> None:
    """Show the page of the URL."""
    st.set_page_config(page_title=TITLE, layout="wide", initial_sidebar_state="collapsed")
    st.html(f"<style>{STYLE}</style>")
    pages = {
        "runs": st.Page(runs.show, title="Runs", url_path="runs", default=True),
        CURVES: st.Page(curves.show, title="Learning curves", url_path=CURVES),
        EVALUATIONS: st.Page(evaluations.show, title="Evaluations", url_path=EVALUATIONS),
        PUZZLES: st.Page(puzzles.show, title="Puzzles", url_path=PUZZLES),
    }
    st.session_state["pages"] = pages
    page = st.navigation(list(pages.values()), position="top")
    with errors_shown():
        page.run()


if __name__ == "__main__":
    show_page()
