"""Plans and writes merged files of a run's result tables, for `trm-eval compact`; removes nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from trm_data.storage.digested import checked_files, digest_of, one_of_each, stem_of, write_digested
from trm_data.storage.root import Layout
from trm_data.storage.store import Folder
from trm_eval.errors import ResultError
from trm_eval.tables.schema import NAMED_BY_EVALS, TABLES
from trm_eval.tables.writer import MERGED, files_named, table_folder, write_table

SMALL_ROWS = 32_768
"""A file with fewer rows is merged with others."""
MERGED_ROWS = 262_144
"""Rows of a merged file, at most."""

Row = dict[str, Any]


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


class Results:
    """The result tables of one run.

    Args:
        layout: The root.
        experiment: Its experiment.
        run: Its name.
    """

    def __init__(self, layout: Layout, experiment: str, run: str) -> None:
        self._layout, self._experiment, self._run = layout, experiment, run
        self.evals = self.folder("evals")

    def folder(self, table: str) -> Folder:
        """Of its files of a table."""
        return table_folder(self._layout, table, self._experiment, self._run)

    def plan(self, drop: set[str]) -> Plan:
        """What is to be done; every file that counts is read and checked."""
        files = self.read_evals()
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

    def read_evals(self) -> dict[str, tuple[list[Row], bool]]:
        """Rows of every file of `evals`, and whether it can be written anew as it is.

        Raises:
            ResultError: A file is gone.
            CorruptFileError: A file has other bytes than were written.
        """
        names = self.evals.names("*.parquet")
        found: dict[str, tuple[list[Row], bool]] = {}
        for name, path in zip(names, checked_files(self.evals, names, again=True), strict=True):
            table = pq.ParquetFile(self._there(self.evals, name, path)).read()
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
        folder, names = self.folder(table), [*uses, *(bound - uses.keys())]
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
        there = self.folder(table).names("*.parquet")
        if table in NAMED_BY_EVALS:
            return sorted(set(there) - {name for row in rows for name in files_named(row)[table]})
        return sorted(set(there) - set(one_of_each(there)))

    def write_merged(self, table: str, merge: Merge) -> str:
        """Write files as one, a group of rows each, and read it back; its name.

        Raises:
            ResultError: A file is gone, or what was written is not what was read.
        """
        folder = self.folder(table)

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

    def write_rows(self, rows: list[Row], replaced: list[str]) -> None:
        """Write rows of `evals` as one file and read it back; it is none of those that are replaced any more.

        Raises:
            ResultError: What was written is not what was to be written.
        """
        stem = f"{MERGED}{_hash([[row['evaluation'], str(row['created_at'])] for row in rows])}"
        table = pa.Table.from_pylist(rows, schema=TABLES["evals"])
        written = write_table(self._layout, "evals", self._experiment, self._run, stem, table)
        (path,) = checked_files(self.evals, [written], again=True)
        if not pq.ParquetFile(self._there(self.evals, written, path)).read().equals(table):
            raise ResultError(f"{self.evals.where(written)}: does not hold the rows that were merged")
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


def renamed_row(row: Row, renamed: dict[tuple[str, str], str]) -> Row:
    """A row of `evals` that names merged files in the place of their sources."""
    changed = dict(row)
    for table, (parts, digests) in NAMED_BY_EVALS.items():
        if row.get(parts) is not None:
            names = dict.fromkeys(renamed.get((table, name), name) for name in files_named(row)[table])
            changed[parts] = [stem_of(name) for name in names]
            changed[digests] = [digest_of(name) for name in names]
    return changed


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


def _hash(content: Any) -> str:
    """Sixteen hexadecimal digits that follow from what a merged file holds."""
    plain = json.dumps(content, sort_keys=True, default=sorted)
    return hashlib.sha256(plain.encode()).hexdigest()[:16]
