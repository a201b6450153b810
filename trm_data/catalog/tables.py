"""The catalog tables of one dataset as Arrow tables, from what its build knows.

Columns and types are those of `catalogs/schema.sql`; DuckDB casts and checks them when they are written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trm_data.manifest import Manifest
from trm_data.records import Groups, Selection

if TYPE_CHECKING:
    import pyarrow as pa


def catalog_tables(
    manifest: Manifest, selection: Selection, elements: Mapping[str, NDArray[np.int64]]
) -> dict[str, pa.Table]:
    """One Arrow table for each table of the catalog.

    Args:
        manifest: The dataset's manifest, its catalog files aside.
        selection: Groups of every split, sources and rejects.
        elements: For each split the symmetry element of every row, int64 [N].
    """
    import pyarrow as pa

    name = manifest.name
    rejects = selection.rejects
    return {
        "datasets": _datasets(manifest),
        "sources": pa.table(
            {
                "dataset": pa.array([name] * len(selection.sources), pa.string()),
                "file": pa.array([source.file for source in selection.sources], pa.string()),
                "sha256": pa.array([source.sha256 for source in selection.sources], pa.string()),
                "rows": pa.array([source.rows for source in selection.sources], pa.int64()),
                "licence": pa.array([source.licence or None for source in selection.sources], pa.string()),
            }
        ),
        "splits": pa.table(
            {
                "dataset": [name] * len(manifest.splits),
                "split": list(manifest.splits),
                "num_groups": [split.num_groups for split in manifest.splits.values()],
                "num_puzzles": [split.num_puzzles for split in manifest.splits.values()],
                "num_examples": [split.num_examples for split in manifest.splits.values()],
                "digest": [split.digest for split in manifest.splits.values()],
            }
        ),
        "shards": _shards(manifest),
        "puzzles": pa.concat_tables(
            [_puzzles(name, split, groups) for split, groups in selection.splits.items()]
        ),
        "augmentations": pa.concat_tables(
            [
                _augmentations(name, split, groups, elements[split])
                for split, groups in selection.splits.items()
            ]
        ),
        "rejects": pa.table(
            {
                "dataset": pa.array([name] * len(rejects), pa.string()),
                "file": pa.array([reject.file.rsplit("/", 1)[-1] for reject in rejects], pa.string()),
                "line": pa.array([reject.line for reject in rejects], pa.int64()),
                "reason": pa.array([reject.reason for reject in rejects], pa.string()),
            }
        ),
    }


def _datasets(manifest: Manifest) -> pa.Table:
    import pyarrow as pa

    return pa.table(
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
    import pyarrow as pa

    shards = [
        (split, index, shard)
        for split, entry in manifest.splits.items()
        for index, shard in enumerate(entry.shards)
    ]
    return pa.table(
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
    import pyarrow as pa

    count = len(groups)
    return pa.table(
        {
            "dataset": [name] * count,
            "split": [split] * count,
            "group_index": np.arange(count, dtype=np.int32),
            "source_file": groups.source_files,
            "source_row": groups.source_rows,
            "rating": groups.ratings,
            "rating_source": groups.rating_sources,
            "clues": groups.clues,
            "num_augmentations": np.array([len(ks) for ks in groups.augmentations], np.int32),
            "canonical_hash": groups.canonical_hashes,
            "first_identifier": np.zeros(count, np.int32),
        }
    )


def _augmentations(name: str, split: str, groups: Groups, elements: NDArray[np.int64]) -> pa.Table:
    import pyarrow as pa

    counts = [len(ks) for ks in groups.augmentations]
    rows = sum(counts)

    def constant(text: str) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array([text]))

    return pa.table(
        {
            "dataset": constant(name),
            "split": constant(split),
            "group_index": np.repeat(np.arange(len(groups), dtype=np.int32), counts),
            "augmentation": np.concatenate([np.arange(count, dtype=np.int32) for count in counts]),
            "k": np.concatenate(groups.augmentations),
            "element": elements,
        }
    )
