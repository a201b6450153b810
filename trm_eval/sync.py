"""Copies result tables from one root to another: `trm-eval sync`. `evals` is copied last: it names the other files."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass

from trm_data.errors import SpecError
from trm_data.show.progress import NoProgress, Progress
from trm_data.storage.atomic import LEFT_S
from trm_data.storage.copy import copy_files
from trm_data.storage.digests import checked_files, one_of_each, stem_of
from trm_data.storage.root import Layout
from trm_eval.errors import ResultError
from trm_eval.tables.schema import NAMED_BY_EVALS
from trm_eval.tables.writer import adding

LAST = (r"evals/.*",)


@dataclass(frozen=True)
class SyncedResults:
    """Result of the copy.

    Attributes:
        files_copied: Number of copied files.
        files_kept: Number of files that already existed.
        bytes_copied: Size of the copied files.
        seconds: Duration (s).
    """

    files_copied: int
    files_kept: int
    bytes_copied: int
    seconds: float


def sync_results(
    source: Layout, target: Layout, runs: list[str] | None = None, progress: Progress | None = None
) -> SyncedResults:
    """Copy result tables. A file with the same stem and other content is replaced, because it is the same evaluation.

    Args:
        source: Root to copy from.
        target: Root to copy to.
        runs: Names of runs or experiments; None or empty for all results.
        progress: Progress display.

    Raises:
        SpecError: The roots are the same.
        ResultError: The source has no results of a named run.
        CorruptFileError: A file of the source has changed since it was written.
        BuildError: A file could not be written.
    """
    begun, progress = time.perf_counter(), progress or NoProgress()
    if source.place == target.place:
        raise SpecError(f"{source.place}: source and target are the same root")

    names = source.results.names()
    for run in runs or []:
        if not any(_is_of(name, run) for name in names):
            raise ResultError(f"no results of {run!r} under {source.results.place}")
    wanted = [name for name in names if not runs or any(_is_of(name, run) for run in runs)]
    # Copy all files of tables that `evals` refers to: its rows say which of them count.
    chosen = [name for name in wanted if _is_told_by_rows(name)]
    chosen += one_of_each(name for name in wanted if not _is_told_by_rows(name))
    checked_files(source.results, chosen)
    with ExitStack() as held:
        for experiment, run in sorted({_partition_of(name) for name in chosen if name.count("/") == 3}):
            held.enter_context(adding(target, experiment, run))
        target.store.remove_temporary(target.results.path, older_s=LEFT_S)
        progress.start("copy results", len(chosen), "files")
        copied = copy_files(source.results, target.results, chosen, progress, last=LAST)
        stems = {stem_of(name) for name in chosen}
        for name in target.results.names():
            if name not in names and stem_of(name) in stems:
                target.results.delete(name)
    return SyncedResults(
        copied.files_copied, copied.files_kept, copied.bytes_copied, time.perf_counter() - begun
    )


def _is_told_by_rows(name: str) -> bool:
    """Return whether a file is in `evals`, or in a table that `evals` refers to."""
    return name.partition("/")[0] in ("evals", *NAMED_BY_EVALS)


def _partition_of(name: str) -> tuple[str, str]:
    """Return experiment and run of a file."""
    _, experiment, run, _ = name.split("/")
    return experiment.removeprefix("experiment="), run.removeprefix("run=")


def _is_of(name: str, run: str) -> bool:
    """Return whether a file belongs to a run, or to an experiment."""
    return bool({f"run={run}", f"experiment={run}"} & set(name.split("/")))
