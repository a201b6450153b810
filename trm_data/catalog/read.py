"""Read the catalog files of one split without DuckDB, for the loader and `verify`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trm_data.encode import numbers_of
from trm_data.errors import CorruptDatasetError
from trm_data.manifest import Manifest
from trm_data.records import Augmentations, Groups, SourceFile
from trm_data.specs import Split
from trm_data.storage.root import DatasetFolder

if TYPE_CHECKING:
    import pyarrow as pa

_OWN_COLUMNS = frozenset(
    (
        "dataset",
        "split",
        "group_index",
        "source_file",
        "source_row",
        "puzzle_key",
        "num_augmentations",
        "num_examples",
        "canonical_hash",
        "first_identifier",
    )
)
_LISTED = ["split", "group_index", "augmentation", "k"]
"""Columns of the table `augmentations` that identify the stored augmentations."""


@dataclass(frozen=True)
class SplitCatalog:
    """The catalog of one split.

    Attributes:
        groups: Its groups, without cells (`inputs` and `labels` have the right length and no columns).
        facts: The other columns of the table `puzzles`.
        element_groups: Group of each listed augmentation, int64 [M].
        element_ks: k of each listed augmentation, int64 [M].
        elements: Symmetry element of each listed augmentation, int64 [M].
        offsets: Translation of every stored row, uint8 [N, 2]; None if the kind does not translate.
    """

    groups: Groups
    facts: dict[str, list[Any]]
    element_groups: NDArray[np.int64]
    element_ks: NDArray[np.int64]
    elements: NDArray[np.int64]
    offsets: NDArray[np.uint8] | None


def read_split_catalog(folder: DatasetFolder, manifest: Manifest, split: Split) -> SplitCatalog:
    """Return the whole catalog of a split."""
    puzzles = _table(folder, manifest, "puzzles", split)
    listed = _table(folder, manifest, "augmentations", split, [*_LISTED, "element"])
    groups = _groups(manifest, split, puzzles, listed)
    facts = {
        name: puzzles.column(name).to_pylist() for name in puzzles.column_names if name not in _OWN_COLUMNS
    }
    offsets = None
    if any(file.file == "catalog/examples.parquet" for file in manifest.catalog):
        moved = _table(folder, manifest, "examples", split, ["split", "row_offset", "column_offset"])
        if moved.num_rows:
            columns = (_integers(moved, name) for name in ("row_offset", "column_offset"))
            offsets = np.stack(list(columns), axis=1).astype(np.uint8)
            if len(offsets) != groups.num_examples:
                raise CorruptDatasetError(f"{split}: the catalog's examples are not those of its puzzles")
    return SplitCatalog(
        groups,
        facts,
        _integers(listed, "group_index"),
        _integers(listed, "k"),
        _integers(listed, "element"),
        offsets,
    )


def read_groups(folder: DatasetFolder, manifest: Manifest, split: Split) -> Groups:
    """Return the groups of a split without cells, which a virtual dataset needs besides its base puzzles."""
    columns = ["split", "group_index", "puzzle_key", "num_augmentations", "num_examples", "first_identifier"]
    puzzles = _table(folder, manifest, "puzzles", split, columns)
    listed = _table(folder, manifest, "augmentations", split, _LISTED)
    return _groups(manifest, split, puzzles, listed)


def read_hashes(folder: DatasetFolder, manifest: Manifest, split: Split) -> list[str]:
    """Return the canonical hash of every group of a split."""
    return _in_group_order(folder, manifest, split, "canonical_hash").column("canonical_hash").to_pylist()


def read_ratings(folder: DatasetFolder, manifest: Manifest, split: Split) -> NDArray[np.float32]:
    """Return the rating of every group of a split, float32 [G]; NaN if a puzzle has none."""
    puzzles = _in_group_order(folder, manifest, split, "rating")
    if "rating" not in puzzles.column_names:  # of format 1
        return np.full(puzzles.num_rows, np.nan, np.float32)
    return puzzles.column("rating").to_numpy().astype(np.float32)


def _in_group_order(folder: DatasetFolder, manifest: Manifest, split: Split, column: str) -> pa.Table:
    puzzles = _table(folder, manifest, "puzzles", split, ["split", "group_index", column])
    if not np.array_equal(_integers(puzzles, "group_index"), np.arange(puzzles.num_rows)):
        raise CorruptDatasetError(f"{split}: the catalog's puzzles are not in group order")
    return puzzles


def read_sources(folder: DatasetFolder, manifest: Manifest) -> list[SourceFile]:
    """Return the files that puzzles were read from; empty if they were generated."""
    import pyarrow.parquet as pq

    for file in manifest.catalog:
        if file.file == "catalog/sources.parquet":
            rows = pq.read_table(folder.open(file), columns=["file", "sha256", "rows", "licence"]).to_pylist()
            return [SourceFile(row["file"], row["sha256"], row["rows"], row["licence"] or "") for row in rows]
    return []


def read_identifier_names(folder: DatasetFolder, manifest: Manifest) -> list[str]:
    """Return the identifier names of an imported dataset; empty if there are none."""
    import pyarrow.parquet as pq

    for file in manifest.catalog:
        if file.file == "catalog/identifiers.parquet":
            table = pq.read_table(folder.open(file), columns=["identifier", "name"])
            return table.sort_by("identifier").column("name").to_pylist()
    return []


def _groups(manifest: Manifest, split: Split, puzzles: pa.Table, listed: pa.Table) -> Groups:
    count = puzzles.num_rows
    indices = _integers(puzzles, "group_index")
    if not np.array_equal(indices, np.arange(count)):
        raise CorruptDatasetError(f"{split}: the catalog's puzzles are not in group order")
    counts = _integers(puzzles, "num_augmentations").astype(np.int32)
    # Datasets of format 1 lack these columns; their puzzles have one example, and the key is the group number.
    known = puzzles.column_names
    examples = _integers(puzzles, "num_examples") if "num_examples" in known else np.ones(count, np.int64)
    keys = _integers(puzzles, "puzzle_key") if "puzzle_key" in known else np.arange(count, dtype=np.int64)
    names = "canonical_hash" in known
    first_examples = np.concatenate([[0], np.cumsum(examples)]).astype(np.int64)
    return Groups(
        inputs=np.empty((int(first_examples[-1]), 0), np.uint8),
        labels=np.empty((int(first_examples[-1]), 0), np.uint8),
        first_examples=first_examples,
        augmentations=_augmentations(manifest, split, counts, listed),
        keys=keys,
        first_identifiers=_integers(puzzles, "first_identifier").astype(np.int32),
        canonical_hashes=puzzles.column("canonical_hash").to_pylist() if names else [],
        source_files=puzzles.column("source_file").to_pylist() if names else [],
        source_rows=_integers(puzzles, "source_row") if names else np.zeros(count, np.int64),
    )


def _augmentations(
    manifest: Manifest, split: Split, counts: NDArray[np.int32], listed: pa.Table
) -> Augmentations:
    """Return the k of every group's augmentations, from the table `augmentations`."""
    groups, positions = _integers(listed, "group_index"), _integers(listed, "augmentation")
    ks = _integers(listed, "k")
    offsets = np.full(len(counts), -1, np.int64)
    if not len(ks):
        if not manifest.virtual:
            raise CorruptDatasetError(f"{split}: the catalog has no augmentations")
        return Augmentations(counts, offsets, np.empty(0, np.int32))
    starts = np.flatnonzero(np.concatenate([[True], np.diff(groups) != 0]))
    sizes = np.diff(np.append(starts, len(groups)))
    of_group = groups[starts]
    whole = (
        groups.min() >= 0
        and groups.max() < len(counts)
        and bool((np.diff(of_group) > 0).all())
        and np.array_equal(sizes, counts[of_group])
        and np.array_equal(positions, np.arange(len(groups)) - np.repeat(starts, sizes))
        and (manifest.virtual or len(of_group) == len(counts))
        and not ks[starts].any()
    )
    if not whole:
        raise CorruptDatasetError(f"{split}: the catalog's augmentations are not those of its puzzles")
    irregular = np.zeros(len(starts), np.bool_)
    np.logical_or.at(irregular, np.repeat(np.arange(len(starts)), sizes), ks != positions)
    if not irregular.any():
        return Augmentations(counts, offsets, np.empty(0, np.int32))
    offsets[of_group[irregular]] = starts[irregular]
    return Augmentations(counts, offsets, ks.astype(np.int32))


def _table(
    folder: DatasetFolder, manifest: Manifest, table: str, split: Split, columns: list[str] | None = None
) -> pa.Table:
    """Return the rows of a split in one of the catalog files."""
    import polars
    import pyarrow as pa
    import pyarrow.parquet as pq

    for entry in manifest.catalog:
        if entry.file == f"catalog/{table}.parquet":
            break
    else:
        raise CorruptDatasetError(f"{manifest.name}: catalog/{table}.parquet is missing in the manifest")
    path = folder.open(entry)
    try:
        with pq.ParquetFile(path) as file:
            if columns is not None:
                columns = [name for name in columns if name in file.schema_arrow.names]
            read = file.read(columns=columns)
        here = polars.from_arrow(read.column("split")) == split  # a scalar of pyarrow would import pandas
        return read.filter(here.to_arrow())
    except (pa.ArrowException, UnicodeDecodeError, OSError, KeyError) as error:
        raise CorruptDatasetError(f"{path}: cannot be read ({error})") from error


def _integers(table: pa.Table, column: str) -> NDArray[np.int64]:
    import pyarrow as pa

    try:
        found = table.column(column)
    except KeyError as error:
        raise CorruptDatasetError(f"the catalog has no column {column}") from error
    if not pa.types.is_integer(found.type) or found.null_count:
        raise CorruptDatasetError(f"the catalog's column {column} has values that are not whole numbers")
    return numbers_of(found.combine_chunks()).astype(np.int64)
