"""Shared by commands of `trm-data`: options, and the formatting of sizes."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from trm_data.closest import no_such
from trm_data.errors import DatasetNotFoundError, SpecError

if TYPE_CHECKING:
    from trm_data.storage.root import Layout

Name = Annotated[Positional[str], arg(metavar="NAME", help="A dataset: trm-data list.")]
Names = Annotated[Positional[tuple[str, ...]], arg(metavar="NAME [NAME ...]", help_behavior_hint="")]
"""Datasets by name or glob."""
SplitName = Literal["train", "validation", "test"]


def is_glob(name: str) -> bool:
    """Whether a name stands for all that fit it."""
    return any(letter in name for letter in "*?[")


def chosen(layout: Layout, names: Sequence[str]) -> list[str]:
    """The datasets that are meant, each once: globs in the order of the alphabet, names as they were typed."""
    if not names:
        raise SpecError(
            "no dataset named (expected names or quoted globs such as 'sudoku-*'; trm-data list shows them)"
        )
    there = sorted(layout.dataset_names()) if any(map(is_glob, names)) else []
    found: dict[str, None] = {}
    for name in names:
        name = name.rstrip("/")  # which shells put behind folders
        fitting = fnmatch.filter(there, name) if is_glob(name) else [name]
        if not fitting:
            raise DatasetNotFoundError(
                no_such(f"no dataset fits {name!r} under {layout.place}", name, there, "trm-data list")
            )
        found |= dict.fromkeys(fitting)
    return list(found)


def megabytes(size_bytes: float) -> str:
    """A size for people."""
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes < 1e10 else f"{size_bytes / 1e9:,.1f} GB"


def duration(seconds: float) -> str:
    """A time for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
