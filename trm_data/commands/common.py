"""Shared by commands of `trm-data`: options, sizes, and the output of `build` and `import`."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from trm_data.errors import DatasetNotFoundError, SpecError, no_such
from trm_data.named import first_name, named_datasets

if TYPE_CHECKING:
    from trm_data.building.estimate import Estimate
    from trm_data.building.flow import BuildResult
    from trm_data.storage.root import Layout


Name = Annotated[Positional[str], arg(metavar="NAME", help="A dataset: trm-data list.")]
Names = Annotated[Positional[tuple[str, ...]], arg(metavar="NAME [NAME ...]", help_behavior_hint="")]
"""Datasets by name or glob."""
SplitName = Literal["train", "validation", "test"]


def is_glob(name: str) -> bool:
    """Return whether a name is a glob."""
    return any(letter in name for letter in "*?[")


def chosen(layout: Layout, names: Sequence[str]) -> list[str]:
    """Return the selected datasets without duplicates: matches of globs in alphabetical order, names as typed."""
    if not names:
        raise SpecError(
            "no dataset named (expected names or quoted globs such as 'sudoku-*'; trm-data list shows them)"
        )
    there = sorted(layout.dataset_names()) if any(map(is_glob, names)) else []
    found: dict[str, None] = {}
    for name in names:
        name = name.rstrip("/")  # added by shell completion of folders
        fitting = fnmatch.filter(there, name) if is_glob(name) else [name]
        if not fitting:
            raise DatasetNotFoundError(
                no_such(f"no dataset fits {name!r} under {layout.place}", name, there, "trm-data list")
            )
        found |= dict.fromkeys(fitting)
    return list(found)


def megabytes(size_bytes: float) -> str:
    """Format a size in bytes as MB or GB."""
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes < 1e10 else f"{size_bytes / 1e9:,.1f} GB"


def duration(seconds: float | None) -> str:
    """Format a duration: 12 s, 4 min, 3.5 h, 12 d; None is a dash."""
    if seconds is None:
        return "-"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 72 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} d"


def facts_of(result: BuildResult) -> dict[str, Any]:
    """Return the result of a build as plain data."""
    manifest = result.manifest
    return {
        "name": manifest.name,
        "folder": result.place,
        "content_digest": manifest.content_digest,
        "unchanged": result.unchanged,
        "shards_written": result.shards_written,
        "shards_kept": result.shards_kept,
        "rejects": result.rejects,
        "examples": {split: entry.num_examples for split, entry in manifest.splits.items()},
        "size_bytes": manifest.size_bytes,
        "seconds": round(result.seconds, 3),
        "warnings": list(result.warnings),
    }


def print_built(result: BuildResult) -> None:
    """Print the result of a build."""
    manifest = result.manifest
    counts = ", ".join(f"{entry.num_examples:,} {split}" for split, entry in manifest.splits.items())
    if result.unchanged:
        print(f"{manifest.name}: already built, nothing to do ({counts} examples)")
    else:
        kept = f", {result.shards_kept} shards were already there" if result.shards_kept else ""
        size = megabytes(manifest.size_bytes)
        print(f"{manifest.name}: {counts} examples, {size}, {result.seconds:.1f} s{kept}")
    if result.rejects:
        print(f'  {bad_rows(result.rejects)} left out: trm-eval sql "SELECT * FROM rejects"')
    for warning in result.warnings:
        print(f"  warning: {warning}", file=sys.stderr)
    print(f"  digest {manifest.content_digest[:12]}, in {result.place}")
    if "train" in manifest.splits and first_name(manifest.name) not in named_datasets():
        print(f"  train on it: trm-train run quickstart --data.dataset {manifest.name}")


def bad_rows(count: int) -> str:
    """Format a number of bad rows."""
    return f"{count:,} bad row{'s' * (count != 1)}"


def print_estimate(estimate: Estimate) -> None:
    """Print the estimate of a build."""
    if estimate.built:
        print(f"{estimate.name}: already built; the same build would do nothing")
        return
    examples = ", ".join(f"{count:,} {split}" for split, count in estimate.examples.items())
    print(f"{estimate.name}: would build about {examples} examples of {estimate.sequence_length} cells")
    done = "its rows were not read, nothing was built" if estimate.rows_unread else "nothing was built"
    print(f"  about {megabytes(estimate.size_bytes)} on disk; {done}")
    if estimate.rejects:
        print(f"  {bad_rows(estimate.rejects)} would be left out")
