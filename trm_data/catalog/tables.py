"""The catalog tables of one dataset as Arrow tables, made from the results of its build.

Columns and types are those of `catalogs/schema.sql`; DuckDB casts and checks them when they are written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from trm_data.encode.arrow import constant_column, table_of
from trm_data.kinds.base import Kind
from trm_data.manifest import Manifest
from trm_data.records import Groups, Selection
from trm_data.specs import Split
from trm_data.symmetry.base import MadeRows

if TYPE_CHECKING:
    import pyarrow as pa


def catalog_tables(
    kind: Kind,
    manifest: Manifest,
    selection: Selection,
    made: Mapping[str, Sequence[MadeRows | None]],
) -> dict[str, Callable[[], pa.Table]]:
    """Return a function for each catalog table that makes its rows.

    Args:
        kind: The kind of the dataset.
        manifest: The dataset's manifest, without its catalog files.
        selection: Groups of every split, sources and rejects.
        made: For each split and shard, how its rows were made; None if they were not made here.
    """
    name = manifest.name

    def of_splits(make: Callable[[Split, Groups], pa.Table]) -> Callable[[], pa.Table]:
        import pyarrow as pa

        return lambda: pa.concat_tables([make(split, groups) for split, groups in selection.splits.items()])

    return {
        "examples": of_splits(lambda split, groups: _examples(name, split, groups, made[split])),
        "augmentations": of_splits(
            lambda split, groups: _augmentations(kind, manifest, split, groups, made[split])
        ),
        "puzzles": of_splits(lambda split, groups: _puzzles(name, split, groups)),
        "datasets": lambda: _datasets(manifest),
        "sources": lambda: _sources(name, selection),
        "splits": lambda: _splits(manifest),
        "shards": lambda: _shards(manifest),
        "identifiers": lambda: _identifiers(name, selection),
        "rejects": lambda: _rejects(name, selection),
    }


def _sources(name: str, selection: Selection) -> pa.Table:
    sources = selection.sources
    return table_of(
        {
            "dataset": [name] * len(sources),
            "file": [source.file for source in sources],
            "sha256": [source.sha256 for source in sources],
            "rows": np.array([source.rows for source in sources], np.int64),
            "licence": [source.licence or None for source in sources],
        }
    )


def _splits(manifest: Manifest) -> pa.Table:
    return table_of(
        {
            "dataset": [manifest.name] * len(manifest.splits),
            "split": list(manifest.splits),
            "num_groups": [split.num_groups for split in manifest.splits.values()],
            "num_puzzles": [split.num_puzzles for split in manifest.splits.values()],
            "num_examples": [split.num_examples for split in manifest.splits.values()],
            "digest": [split.digest for split in manifest.splits.values()],
        }
    )


def _identifiers(name: str, selection: Selection) -> pa.Table:
    names = selection.identifier_names
    return table_of(
        {
            "dataset": [name] * len(names),
            "identifier": np.arange(len(names), dtype=np.int32),
            "name": list(names),
        }
    )


def _rejects(name: str, selection: Selection) -> pa.Table:
    rejects = selection.rejects
    return table_of(
        {
            "dataset": [name] * len(rejects),
            "file": [reject.file.rsplit("/", 1)[-1] for reject in rejects],
            "line": np.array([reject.line for reject in rejects], np.int64),
            "reason": [reject.reason for reject in rejects],
        }
    )


def _datasets(manifest: Manifest) -> pa.Table:
    return table_of(
        {
            "dataset": [manifest.name],
            "kind": [manifest.kind],
            "digest": [manifest.content_digest],
            "spec_digest": [manifest.spec_digest],
            "spec": [json.dumps(manifest.spec.to_json(), sort_keys=True)],
            "sequence_length": [manifest.sequence_length],
            "vocabulary_size": [manifest.vocabulary_size],
            "num_identifiers": [manifest.num_identifiers],
            "built_at": [manifest.built_at],
            "builder_version": [manifest.builder_version],
        }
    )


def _shards(manifest: Manifest) -> pa.Table:
    shards = [
        (split, index, shard)
        for split, entry in manifest.splits.items()
        for index, shard in enumerate(entry.shards)
    ]
    return table_of(
        {
            "dataset": [manifest.name] * len(shards),
            "split": [split for split, _, _ in shards],
            "shard": [index for _, index, _ in shards],
            "path": [shard.file for _, _, shard in shards],
            "num_records": [shard.num_records for _, _, shard in shards],
            "num_examples": [shard.num_examples for _, _, shard in shards],
            "size_bytes": [shard.size_bytes for _, _, shard in shards],
            "sha256": [shard.sha256 for _, _, shard in shards],
        }
    )


def _puzzles(name: str, split: str, groups: Groups) -> pa.Table:
    count = len(groups)
    return table_of(
        {
            "dataset": constant_column(name, count),
            "split": constant_column(split, count),
            "group_index": np.arange(count, dtype=np.int32),
            "source_file": groups.source_files,
            "source_row": groups.source_rows,
            "puzzle_key": groups.keys,
            "num_augmentations": groups.augmentations.counts,
            "num_examples": groups.examples_per_augmentation.astype(np.int32),
            "canonical_hash": groups.canonical_hashes,
            "first_identifier": groups.first_identifiers,
            **groups.facts,
        }
    )


def _augmentations(
    kind: Kind, manifest: Manifest, split: str, groups: Groups, made: Sequence[MadeRows | None]
) -> pa.Table:
    """Return every augmentation; for a virtual dataset without identifiers, only those of groups with listed k."""
    identifier_each = kind.geometry(manifest.spec).identifier_each
    which = np.arange(len(groups), dtype=np.int64)
    if manifest.virtual and not identifier_each:
        which = np.flatnonzero(groups.augmentations.offsets >= 0)
    puzzle_groups, positions = groups.augmentations.numbered(which)
    ks = groups.augmentations.ks(puzzle_groups, positions)
    known = [shard.elements for shard in made if shard is not None]
    elements = np.concatenate(known) if known else kind.elements(manifest.spec, groups, puzzle_groups, ks)
    identifiers = groups.first_identifiers[puzzle_groups]
    if groups.imported is not None:
        identifiers = groups.imported.puzzle_identifiers[groups.imported.examples == 0]
    elif identifier_each:
        identifiers = identifiers + positions.astype(np.int32)

    return table_of(
        {
            "dataset": constant_column(manifest.name, len(ks)),
            "split": constant_column(split, len(ks)),
            "group_index": puzzle_groups.astype(np.int32),
            "augmentation": positions.astype(np.int32),
            "k": ks.astype(np.int32),
            "element": elements,
            "identifier": identifiers,
            **kind.element_columns(elements),
        }
    )


def _examples(name: str, split: str, groups: Groups, made: Sequence[MadeRows | None]) -> pa.Table:
    """Return the translation of every row, for kinds that translate."""
    known = [shard.offsets for shard in made if shard is not None and shard.offsets is not None]
    moved = np.concatenate(known) if known else np.empty((0, 2), np.uint8)
    numbers = groups.numbered(0, len(groups) if len(moved) else 0)

    return table_of(
        {
            "dataset": constant_column(name, len(numbers)),
            "split": constant_column(split, len(numbers)),
            "group_index": numbers.groups.astype(np.int32),
            "augmentation": numbers.augmentations.astype(np.int32),
            "example": numbers.examples.astype(np.int32),
            "row_offset": moved[:, 0],
            "column_offset": moved[:, 1],
        }
    )
