"""Merges the small files that many evaluations leave into few, and removes what nothing names any more.

The order keeps every moment whole. Merged predictions and votes are written first, named by nobody; then a file with
all rows of `evals`, which names them; of two rows of an evaluation readers take one, and the files of both are there.
Only then the old rows go, and last the files that no row names. Whatever is removed was read and checked before, and
what takes its place was read back. Files of format 1 and of newer versions stay as they are.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from trm_data.closest import no_such
from trm_data.errors import DataError
from trm_data.show.progress import NoProgress, Progress
from trm_data.storage.root import Layout
from trm_data.storage.store import Check, Folder
from trm_data.storage.turn import locked, turn_to_write
from trm_eval.errors import ResultError
from trm_eval.tables.merging import Plan, Results, renamed_row
from trm_eval.tables.query import query_results
from trm_eval.tables.schema import NAMED_BY_EVALS, TABLES
from trm_eval.tables.writer import files_named
from trm_train.checkpoint.manager import resume_steps
from trm_train.metrics.table import FOLDER as METRICS
from trm_train.metrics.table import MergeOfParts, covered_parts, merge_parts, plan_merges
from trm_train.run.record import list_runs

SUPERSEDED = (
    "SELECT experiment, run, evaluation FROM all_evals ANTI JOIN evals USING (experiment, run, evaluation)"
)


@dataclass(frozen=True, kw_only=True)
class Compacted:
    """What was done for one run, or would be.

    Attributes:
        run: Its name.
        files_before: Files of its results and metrics.
        files_after: The same afterwards.
        bytes_before: Size of these files.
        bytes_after: The same afterwards; None of a dry run.
        evaluations_removed: Evaluations that a newer one of the same request has superseded, removed.
        unnamed_left: Files that no evaluation names, left because another machine may be writing them.
    """

    run: str
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int | None
    evaluations_removed: int
    unnamed_left: int


def compact_results(
    layout: Layout,
    patterns: Sequence[str] = (),
    *,
    superseded: bool = False,
    alone: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> tuple[list[Compacted], list[str]]:
    """Merge and tidy the results and metrics of runs, one run after the other.

    Args:
        layout: The root.
        patterns: Names of runs or experiments, or globs; all without any.
        superseded: Remove evaluations that a newer one of the same request has superseded.
        alone: No other machine writes results there: remove at once what nothing names, on a bucket too.
        dry_run: Only say what would be done.
        progress: Told of every run.

    Returns:
        What was done for each run, and a line for each that was left as it is.

    Raises:
        ResultError: No run is called so.
        BucketError: The bucket cannot be reached.
    """
    progress = progress or NoProgress()
    folders = {(folder.path.split("/")[-2], folder.name): folder for folder in list_runs(layout)}
    runs = _choose({*folders, *_partitions(layout)}, patterns)
    old = {tuple(row) for row in query_results(layout, SUPERSEDED).rows} if superseded else set()
    progress.start("compact results", len(runs), "runs")
    done: list[Compacted] = []
    problems: list[str] = []
    for experiment, run in runs:
        drop = {evaluation for of, name, evaluation in old if (of, name) == (experiment, run)}
        one = OneRun(layout, experiment, run, folders.get((experiment, run)), alone=alone)
        try:
            done.append(one.look(drop) if dry_run else one.compact(drop))
        except (ResultError, DataError, pa.ArrowException) as error:
            problems.append(f"{run}: left as it is: {error}")
        progress.advance(1)
    return done, problems


def _partitions(layout: Layout) -> set[tuple[str, str]]:
    """Experiment and run of everything in the result tables."""
    found: set[tuple[str, str]] = set()
    for table in TABLES:
        for name in layout.results.within(table).names("experiment=*/run=*/*.parquet"):
            experiment, run, _ = name.split("/")
            found.add((experiment.removeprefix("experiment="), run.removeprefix("run=")))
    return found


def _choose(runs: set[tuple[str, str]], patterns: Sequence[str]) -> list[tuple[str, str]]:
    """Those that patterns name.

    Raises:
        ResultError: A pattern names none.
    """
    chosen: set[tuple[str, str]] = set() if patterns else runs
    for pattern in patterns:
        found = {run for run in runs if any(fnmatch.fnmatchcase(name, pattern) for name in run)}
        if not found:
            said = f"no run or experiment with results is called {pattern!r}"
            raise ResultError(
                no_such(said, pattern, sorted({name for run in runs for name in run}), "trm-train status")
            )
        chosen |= found
    return sorted(chosen)


class OneRun:
    """The results and metrics of one run.

    Args:
        layout: The root.
        experiment: Its experiment.
        run: Its name.
        folder: The run's folder; None where only results are there.
        alone: See `compact_results`.
    """

    def __init__(
        self, layout: Layout, experiment: str, run: str, folder: Folder | None, *, alone: bool
    ) -> None:
        self._layout, self._experiment, self._run, self._folder = layout, experiment, run, folder
        self._removes = alone or layout.store.lock_is_enough
        self._results = Results(layout, experiment, run)

    def look(self, drop: set[str]) -> Compacted:
        """What `compact` would do."""
        plan = self._results.plan(drop)
        before, size = self._count()
        metrics = sum(1 - len(merge.names) for merge in self._metric_merges())
        covered = 0 if self._folder is None else len(covered_parts(self._folder))
        after = before + plan.files_changed(removes=self._removes) + metrics - covered
        return self._compacted(plan, (before, size), (after, None))

    def compact(self, drop: set[str]) -> Compacted:
        """Merge and remove, whole at every moment.

        Raises:
            BusyError: The run is being evaluated or trained.
            ResultError: A file that an evaluation names is missing, or what was written is not what was read.
            CorruptFileError: A file has other bytes than were written.
        """
        before = self._count()
        with (
            locked(self._results.evals, f"{self._run}: is being evaluated; wait for it"),
            turn_to_write(self._results.evals, f"the results of {self._run}") as turn,
        ):
            plan = self._results.plan(drop)
            self._carry_out(plan, turn.check)
        if self._folder is not None:
            with (
                locked(self._folder, f"{self._run}: is being trained; wait for it, or stop it"),
                turn_to_write(self._folder, f"run {self._run}") as turn,
            ):
                for name in covered_parts(self._folder):  # of a merge that was cut off
                    self._folder.within(METRICS).delete(name, turn.check)
                for merge in self._metric_merges():
                    merge_parts(self._folder, merge, turn.check)
        return self._compacted(plan, before, self._count())

    def _compacted(self, plan: Plan, before: tuple[int, int], after: tuple[int, int | None]) -> Compacted:
        return Compacted(
            run=self._run,
            files_before=before[0],
            files_after=after[0],
            bytes_before=before[1],
            bytes_after=after[1],
            evaluations_removed=plan.evaluations_removed,
            unnamed_left=0 if self._removes else sum(map(len, plan.unnamed.values())),
        )

    def _count(self) -> tuple[int, int]:
        """Files of results and metrics, and their size in bytes."""
        folders = [self._results.folder(table) for table in TABLES]
        if self._folder is not None:
            folders.append(self._folder.within(METRICS))
        files = sum(len(folder.names("*.parquet")) for folder in folders)
        return files, sum(folder.store.size_bytes(folder.path) for folder in folders)

    def _metric_merges(self) -> list[MergeOfParts]:
        """Parts of its metrics that may become one: none reaches beyond a step that the run can go on from."""
        if self._folder is None:
            return []
        return plan_merges(self._folder, min(resume_steps(self._folder), default=None))

    def _carry_out(self, plan: Plan, check: Check) -> None:
        """Write, prove, then remove."""
        renamed: dict[tuple[str, str], str] = {}
        for table, merges in plan.merges.items():
            for merge in merges:
                written = self._results.write_merged(table, merge)
                renamed |= {(table, source): written for source in merge.sources}
        if plan.rows:
            self._results.write_rows([renamed_row(row, renamed) for row in plan.rows], plan.replaced)
        for name in plan.replaced:
            self._results.evals.delete(name, check)
        rows = [row for found, _ in self._results.read_evals().values() for row in found]  # as they are now
        for table in TABLES:
            gone = set(plan.released.get(table, ())) | set(plan.unnamed[table] if self._removes else ())
            if table in NAMED_BY_EVALS:
                gone -= {name for row in rows for name in files_named(row)[table]}
            for name in sorted(gone):
                self._results.folder(table).delete(name, check)
            if self._removes:
                self._layout.store.remove_temporary(self._results.folder(table).path)
