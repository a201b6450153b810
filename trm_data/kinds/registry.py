"""Which kinds of puzzles there are: those of this package, and those that other packages name as entry points.

Nothing of a kind is imported before it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

from trm_data.errors import SpecError
from trm_data.kinds.base import Kind

ENTRY_POINTS = "trm_data.kinds"
"""Entry-point group in which other packages name their kinds."""

BUILT_IN = {
    "sudoku": "SudokuKind",
    "maze": "MazeKind",
    "arc": "ArcKind",
    "table": "TableKind",
    "finished": "FinishedKind",
}
"""Class of each kind of this package, in `trm_data.kinds.<kind>.kind`."""


def load_kind(name: str) -> Kind:
    """The kind of that name, of this package or of another one that names it as an entry point.

    Raises:
        SpecError: There is none.
    """
    if name in BUILT_IN:
        return cast(Kind, getattr(import_module(f"trm_data.kinds.{name}.kind"), BUILT_IN[name])())
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name == name:
            return cast(Kind, entry.load()())
    raise SpecError(
        f"unknown kind {name!r}: there are {', '.join(kind_names())}; a kind of another package needs that package "
        "installed"
    )


def kind_names() -> list[str]:
    """Every kind that can be built here; rows that are imported are none."""
    others = sorted(entry.name for entry in entry_points(group=ENTRY_POINTS))
    return [*(name for name in BUILT_IN if name != "finished"), *others]
