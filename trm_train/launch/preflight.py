"""What a launch needs before any machine is asked for: a root that can be written, with the datasets under it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from trm_data.errors import DataError, DatasetNotFoundError
from trm_data.manifest import read_manifest
from trm_data.storage.root import Layout
from trm_train.errors import LaunchError
from trm_train.experiments.dataset import is_named

PROBE = ".launch"
"""A file that is written under the root and deleted again."""


def root_problems(layout: Layout, datasets: Sequence[str]) -> list[str]:
    """What the root lacks, a line each with the way out.

    Args:
        layout: The root.
        datasets: Names of those that the runs learn.
    """
    try:
        layout.runs.write(PROBE, b"written")
        layout.runs.delete(PROBE)
    except (DataError, OSError) as error:
        return [f"{layout.place} cannot be written: {error}"]
    problems: list[str] = []
    for name in dict.fromkeys(datasets):
        try:
            read_manifest(layout, name)
        except DatasetNotFoundError:
            root = shlex.quote(layout.place)
            build = f"trm-data build {name} --root {root}"
            copy = f"trm-data sync FROM {root} {name}"
            problems.append(
                f"dataset {name} is not under {layout.place}; put it there: {build if is_named(name) else copy}"
            )
        except DataError as error:
            problems.append(f"dataset {name}: {error}")
    return problems


def check_all(checks: Sequence[Callable[[], list[str]]]) -> None:
    """Look at everything, and say all that is missing at once."""
    problems: list[str] = []
    for check in checks:
        try:
            problems += check()
        except LaunchError as error:
            problems.append(str(error))
    if problems:
        raise LaunchError("\n  ".join(["before anything was created:", *problems]))
