"""The script that Streamlit runs for every page, anew at every click."""

from trm_eval.serve.screens.frame import show_page

show_page()
