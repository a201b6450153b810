"""Merges the small files that many evaluations leave into few, and removes what nothing names any more.

The order keeps every moment whole. Merged predictions and votes are written first, named by nobody; then a file with
all rows of `evals`, which names them; of two rows of an evaluation readers take one, and the files of both are there.
Only then the old rows go, and last the files that no row names. Whatever is removed was read and checked before, and
what takes its place was read back. Files of format 1 and of newer versions stay as they are.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trm_data.errors import DataError
from trm_data.show.progress import NoProgress, Progress
from trm_data.storage.digested import checked_files, digest_of, one_of_each, stem_of, write_digested
from trm_data.storage.root import Layout
from trm_data.storage.store import Check, Folder
from trm_data.storage.turn import locked, turn_to_write
from trm_eval.errors import ResultError
from trm_eval.tables.query import query_results
from trm_eval.tables.schema import NAMED_BY_EVALS, TABLES
from trm_eval.tables.writer import MERGED, files_named, table_folder, write_table
from trm_train.checkpoint.manager import resume_steps
from trm_train.metrics.table import FOLDER as METRICS
from trm_train.metrics.table import MergeOfParts, covered_parts, merge_parts, plan_merges
from trm_train.run.record import list_runs

SMALL_ROWS = 32_768
"""A file with fewer rows is merged with others."""
MERGED_ROWS = 262_144
"""Rows of a merged file, at most."""

SUPERSEDED = (
    "SELECT experiment, run, evaluation FROM all_evals ANTI JOIN evals USING (experiment, run, evaluation)"
)

Row = dict[str, Any]


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


@dataclass(frozen=True)
class Merge:
    """Files of a table that become one.

    Attributes:
        stem: Of the file that they become.
        sources: Their names, and of each the evaluations whose rows count.
    """

    stem: str
    sources: dict[str, frozenset[str]]


@dataclass
class Plan:
    """What is to be done for the results of a run.

    Attributes:
        rows: Rows of `evals` that are written into one file; none where those that are there may stay.
        replaced: Files of `evals` that go.
        merges: By table.
        released: Files that the rows in `replaced` name, by table: they go unless a row names them still.
        unnamed: Files that nothing names, by table.
        evaluations_removed: Superseded evaluations.
    """

    rows: list[Row] = field(default_factory=list[Row])
    replaced: list[str] = field(default_factory=list[str])
    merges: dict[str, list[Merge]] = field(default_factory=dict[str, list[Merge]])
    released: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    unnamed: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    evaluations_removed: int = 0

    def files_changed(self, *, removes: bool) -> int:
        """Files that there are more afterwards; fewer if it is negative."""
        written = sum(map(len, self.merges.values())) + bool(self.rows)
        gone = len(self.replaced) + sum(
            len(merge.sources) for merges in self.merges.values() for merge in merges
        )
        return written - gone - (sum(map(len, self.unnamed.values())) if removes else 0)


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
            raise ResultError(f"no run or experiment with results is called {pattern!r} (trm-train status)")
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
        self._evals = self._table("evals")

    def look(self, drop: set[str]) -> Compacted:
        """What `compact` would do."""
        plan = self._plan(drop)
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
            locked(self._evals, f"{self._run}: is being evaluated; wait for it"),
            turn_to_write(self._evals, f"the results of {self._run}") as turn,
        ):
            plan = self._plan(drop)
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

    def _table(self, table: str) -> Folder:
        return table_folder(self._layout, table, self._experiment, self._run)

    def _count(self) -> tuple[int, int]:
        """Files of results and metrics, and their size in bytes."""
        folders = [self._table(table) for table in TABLES]
        if self._folder is not None:
            folders.append(self._folder.within(METRICS))
        files = sum(len(folder.names("*.parquet")) for folder in folders)
        return files, sum(folder.store.size_bytes(folder.path) for folder in folders)

    def _metric_merges(self) -> list[MergeOfParts]:
        """Parts of its metrics that may become one: none reaches beyond a step that the run can go on from."""
        if self._folder is None:
            return []
        return plan_merges(self._folder, min(resume_steps(self._folder), default=None))

    def _plan(self, drop: set[str]) -> Plan:
        """What is to be done; every file that counts is read and checked."""
        files = self._read_evals()
        newest: dict[str, tuple[str, Row]] = {}
        for name, (rows, _) in files.items():
            for row in rows:
                other = newest.get(row["evaluation"])
                if other is None or _made(row) >= _made(other[1]):
                    newest[row["evaluation"]] = name, row
        kept = {evaluation: found for evaluation, found in newest.items() if evaluation not in drop}
        plan = Plan(evaluations_removed=len(newest) - len(kept))
        ours = {name for name, (_, mergeable) in files.items() if mergeable}
        rows = [row for name, row in kept.values() if name in ours]
        fixed = [row for name, row in kept.values() if name not in ours]
        for table in NAMED_BY_EVALS:
            plan.merges[table] = self._plan_merges(table, rows, fixed)
        stale = {
            name
            for name, (found, _) in files.items()
            if any(kept.get(row["evaluation"], ("", None))[0] != name for row in found)
        }
        if len(ours) > 1 or ours & stale or any(plan.merges.values()):
            plan.rows = sorted(rows, key=lambda row: (_made(row), row["evaluation"]))
            plan.replaced = sorted(ours)
        lost = {name for name in stale - ours if not any(found[0] == name for found in kept.values())}
        plan.replaced += sorted(lost)
        for table in NAMED_BY_EVALS:
            replaced = [row for name in plan.replaced for row in files[name][0]]
            plan.released[table] = sorted({name for row in replaced for name in files_named(row)[table]})
        for table in TABLES:
            plan.unnamed[table] = self._unnamed(table, [*rows, *fixed])
        return plan

    def _read_evals(self) -> dict[str, tuple[list[Row], bool]]:
        """Rows of every file of `evals`, and whether it can be written anew as it is.

        Raises:
            ResultError: A file is gone.
            CorruptFileError: A file has other bytes than were written.
        """
        names = self._evals.names("*.parquet")
        found: dict[str, tuple[list[Row], bool]] = {}
        for name, path in zip(names, checked_files(self._evals, names, again=True), strict=True):
            table = pq.ParquetFile(self._there(self._evals, name, path)).read()
            rows = table.to_pylist()
            whole = all(
                row.get(parts) is None or row.get(digests) is not None
                for row in rows
                for parts, digests in NAMED_BY_EVALS.values()
            )
            found[name] = rows, _is_of_today("evals", name, table.schema) and whole
        return found

    def _plan_merges(self, table: str, rows: Sequence[Row], fixed: Sequence[Row]) -> list[Merge]:
        """Which files of a table become one.

        Args:
            table: One whose files `evals` names.
            rows: Rows of `evals` that can name others.
            fixed: Rows that cannot.
        """
        uses: dict[str, set[str]] = {}
        for row in rows:
            for name in files_named(row)[table]:
                uses.setdefault(name, set()).add(row["evaluation"])
        bound = {name for row in fixed for name in files_named(row)[table]}
        folder, names = self._table(table), [*uses, *(bound - uses.keys())]
        small: dict[str, tuple[int, frozenset[str]]] = {}
        again = False
        for name, path in zip(names, checked_files(folder, names, again=True), strict=True):
            file = pq.ParquetFile(self._there(folder, name, path))
            if name in bound or not _is_of_today(table, name, file.schema_arrow):
                continue
            stale = name.startswith(MERGED) and _evaluations(file) - uses[name]
            again = again or bool(stale)
            if stale or file.metadata.num_rows < SMALL_ROWS:
                small[name] = file.metadata.num_rows, frozenset(uses[name])
        if len(small) < 2 and not again:
            return []
        chunks: list[dict[str, frozenset[str]]] = []
        room = 0
        for name, (count, evaluations) in small.items():
            if count > room:
                chunks.append({})
                room = MERGED_ROWS
            chunks[-1][name] = evaluations
            room -= count
        return [
            Merge(f"{MERGED}{_hash([table, chunk])}", chunk) for chunk in chunks if len(chunk) > 1 or again
        ]

    def _unnamed(self, table: str, rows: Sequence[Row]) -> list[str]:
        """Files of a table that no row names; of the others those that another of their stem stands before."""
        if table == "evals":
            return []
        there = self._table(table).names("*.parquet")
        if table in NAMED_BY_EVALS:
            return sorted(set(there) - {name for row in rows for name in files_named(row)[table]})
        return sorted(set(there) - set(one_of_each(there)))

    def _carry_out(self, plan: Plan, check: Check) -> None:
        """Write, prove, then remove."""
        renamed: dict[tuple[str, str], str] = {}
        for table, merges in plan.merges.items():
            for merge in merges:
                written = self._write_merged(table, merge)
                renamed |= {(table, source): written for source in merge.sources}
        if plan.rows:
            self._write_rows([_renamed(row, renamed) for row in plan.rows], plan.replaced)
        for name in plan.replaced:
            self._evals.delete(name, check)
        rows = [row for found, _ in self._read_evals().values() for row in found]  # as they are now
        for table in TABLES:
            gone = set(plan.released.get(table, ())) | set(plan.unnamed[table] if self._removes else ())
            if table in NAMED_BY_EVALS:
                gone -= {name for row in rows for name in files_named(row)[table]}
            for name in sorted(gone):
                self._table(table).delete(name, check)
            if self._removes:
                self._layout.store.remove_temporary(self._table(table).path)

    def _write_merged(self, table: str, merge: Merge) -> str:
        """Write files as one, a group of rows each, and read it back; its name.

        Raises:
            ResultError: A file is gone, or what was written is not what was read.
        """
        folder = self._table(table)

        def sources() -> Iterator[pa.Table]:
            for name, evaluations in merge.sources.items():
                (path,) = checked_files(folder, [name])
                rows = pq.ParquetFile(self._there(folder, name, path)).read()
                rows = rows.filter(pc.field("evaluation").isin(sorted(evaluations)))
                part = pa.array([merge.stem] * len(rows), pa.string())
                yield _of_schema(rows, TABLES[table]).set_column(
                    TABLES[table].get_field_index("part"), TABLES[table].field("part"), part
                )

        def write(path: Path) -> None:
            with pq.ParquetWriter(path, TABLES[table], compression="zstd") as writer:
                for rows in sources():
                    writer.write_table(rows)

        written = write_digested(folder, merge.stem, write)
        (path,) = checked_files(folder, [written], again=True)
        file = pq.ParquetFile(self._there(folder, written, path))
        group, whole = 0, True
        for rows in sources():
            count, groups = 0, []
            while count < len(rows) and group < file.num_row_groups:
                groups.append(group)
                count += file.metadata.row_group(group).num_rows
                group += 1
            whole = whole and (file.read_row_groups(groups).equals(rows) if len(rows) else True)
        if not whole or file.metadata.num_rows != sum(map(len, sources())):
            folder.delete(written)
            raise ResultError(
                f"{folder.where(written)}: does not hold the rows that were merged; nothing was removed"
            )
        return written

    def _write_rows(self, rows: list[Row], replaced: list[str]) -> None:
        """Write rows of `evals` as one file and read it back; it is none of those that are replaced any more.

        Raises:
            ResultError: What was written is not what was to be written.
        """
        stem = f"{MERGED}{_hash([[row['evaluation'], str(row['created_at'])] for row in rows])}"
        table = pa.Table.from_pylist(rows, schema=TABLES["evals"])
        written = write_table(self._layout, "evals", self._experiment, self._run, stem, table)
        (path,) = checked_files(self._evals, [written], again=True)
        if not pq.ParquetFile(self._there(self._evals, written, path)).read().equals(table):
            raise ResultError(f"{self._evals.where(written)}: does not hold the rows that were merged")
        if written in replaced:  # it was this already
            replaced.remove(written)

    def _there(self, folder: Folder, name: str, path: Path | None) -> Path:
        """The file, which must be there.

        Raises:
            ResultError: It is gone.
        """
        if path is None:
            raise ResultError(f"{folder.where(name)}: is missing, and an evaluation names it; evaluate again")
        return path


def _made(row: Row) -> float:
    """When an evaluation ended, for comparison."""
    made = row.get("created_at")
    return 0.0 if made is None else made.timestamp()


def _is_of_today(table: str, name: str, schema: pa.Schema) -> bool:
    """Whether a file can be written anew without losing anything: it has a digest, and no column but those of today."""
    return digest_of(name) is not None and set(schema.names) <= set(TABLES[table].names)


def _of_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with all columns of a schema; those that were added later are NULL."""
    columns = [
        rows[item.name].cast(item.type) if item.name in rows.column_names else pa.nulls(len(rows), item.type)
        for item in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _evaluations(file: pq.ParquetFile) -> set[str]:
    return set(file.read(["evaluation"])["evaluation"].unique().to_pylist())


def _renamed(row: Row, renamed: dict[tuple[str, str], str]) -> Row:
    """A row of `evals` that names merged files in the place of their sources."""
    changed = dict(row)
    for table, (parts, digests) in NAMED_BY_EVALS.items():
        if row.get(parts) is not None:
            names = dict.fromkeys(renamed.get((table, name), name) for name in files_named(row)[table])
            changed[parts] = [stem_of(name) for name in names]
            changed[digests] = [digest_of(name) for name in names]
    return changed


def _hash(content: Any) -> str:
    """Sixteen hexadecimal digits that follow from what a merged file holds."""
    plain = json.dumps(content, sort_keys=True, default=sorted)
    return hashlib.sha256(plain.encode()).hexdigest()[:16]
