"""Evaluates checkpoints and stores the results as Parquet tables for SQL queries.

In Python a result is a polars frame:

    trm_eval.evaluate("quickstart")              # evaluates the last checkpoint and writes the tables
    trm_eval.sql("SELECT run, exact_accuracy FROM evals")
    trm_eval.sql("SELECT row, exact, prediction FROM predictions WHERE experiment = 'quickstart'")

A run can also answer puzzles:

    trm_eval.load("quickstart").solve("..2....3.45..4........6...51.......3").text()

These functions are imported on first use, so that the command line starts fast.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trm_eval.api import evaluate
    from trm_eval.solver import load
    from trm_eval.tables.query import sql

__all__ = ["evaluate", "load", "sql"]

_HOMES = {
    "evaluate": "trm_eval.api",
    "load": "trm_eval.solver",
    "sql": "trm_eval.tables.query",
}


_MODULES = ("errors", "statistics")
"""Modules that attribute access imports on demand."""


def __getattr__(name: str) -> object:
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"trm_eval.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'trm_eval' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
