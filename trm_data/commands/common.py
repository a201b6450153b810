"""What several commands of `trm-data` have in common: options, and how sizes are written."""

from __future__ import annotations

from typing import Annotated, Literal

from tyro.conf import Positional, arg

Name = Annotated[Positional[str], arg(metavar="NAME")]
SplitName = Literal["train", "validation", "test"]


def megabytes(size_bytes: float) -> str:
    """A size for people."""
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes < 1e10 else f"{size_bytes / 1e9:,.1f} GB"


def duration(seconds: float) -> str:
    """A time for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
