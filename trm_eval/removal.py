"""Removes evaluations superseded by a newer one of the same request, with their files."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

from trm_data.closest import no_such
from trm_data.errors import DataError
from trm_data.storage.lease import leased, locked
from trm_data.storage.root import Layout
from trm_eval.errors import ResultError
from trm_eval.tables.query import query_results
from trm_eval.tables.writer import files_named, rows_of_evals, table_folder

SUPERSEDED = """
SELECT experiment, run, evaluation FROM all_evals
ANTI JOIN evals USING (experiment, run, evaluation) ORDER BY ALL
"""


@dataclass(frozen=True, kw_only=True)
class Removed:
    """An evaluation that was removed, or would be in a dry run.

    Attributes:
        run: Name of the run.
        evaluation: Id of the evaluation.
        files: Number of removed files.
    """

    run: str
    evaluation: str
    files: int


def remove_superseded(
    layout: Layout, patterns: Sequence[str] = (), *, dry_run: bool = False
) -> tuple[list[Removed], list[str]]:
    """Remove superseded evaluations; the views `evals` and `predictions` return the same rows afterwards.

    Args:
        layout: The root.
        patterns: Names of runs or experiments, or globs; empty for all.
        dry_run: Remove nothing; only return what would be removed.

    Returns:
        The removed evaluations, and a line for each kept one. Reasons: an earlier version merged its file, its run
        is being evaluated, or a file cannot be read.
    """
    rows = query_results(layout, SUPERSEDED).rows
    _check_patterns(layout, patterns)
    removed: list[Removed] = []
    problems: list[str] = []
    for experiment, run, evaluation in rows:
        if patterns and not any(
            fnmatch.fnmatchcase(name, pattern) for name in (experiment, run) for pattern in patterns
        ):
            continue
        try:
            removed.append(_remove(layout, experiment, run, evaluation, dry_run=dry_run))
        except (DataError, ResultError) as error:
            problems.append(str(error))
    return removed, problems


def _remove(layout: Layout, experiment: str, run: str, evaluation: str, *, dry_run: bool) -> Removed:
    """Remove an evaluation, its row first, so that no reader finds a row without its files."""
    evals = table_folder(layout, "evals", experiment, run)
    with (
        locked(evals, f"{run}: is being evaluated; wait for it"),
        leased(evals, f"the results of {run}") as lease,
    ):
        own = evals.names(f"{evaluation}.*")
        if not own:
            raise ResultError(
                f"{run}: evaluation {evaluation} is in a file that an earlier version merged; it stays"
            )
        rows = rows_of_evals(evals, "*.parquet")
        mine = [files_named(row) for row in rows if row["evaluation"] == evaluation]
        if not mine:
            raise ResultError(f"{run}: the row of evaluation {evaluation} cannot be read; it stays")
        # Its own files start with its id; other files in its row may belong to another evaluation.
        named = {(table, name) for files in mine for table, names in files.items() for name in names}
        gone = [("evals", name) for name in own]
        gone += sorted((table, name) for table, name in named if name.startswith(f"{evaluation}-"))
        if not dry_run:
            for table, name in gone:
                table_folder(layout, table, experiment, run).delete(name, lease.check)
    return Removed(run=run, evaluation=evaluation, files=len(gone))


def _check_patterns(layout: Layout, patterns: Sequence[str]) -> None:
    known = {
        name
        for row in query_results(layout, "SELECT DISTINCT experiment, run FROM all_evals").rows
        for name in row
    }
    for pattern in patterns:
        if not fnmatch.filter(known, pattern):
            said = f"no run or experiment with results is called {pattern!r}"
            raise ResultError(no_such(said, pattern, sorted(known), "trm-train status"))
