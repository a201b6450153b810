"""The end of a build after its shards: catalog files, card, and last the manifest."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import fields, replace
from datetime import UTC, datetime
from importlib.metadata import version

from trm_data.building.shard_job import ShardJob, WrittenShard
from trm_data.card import CARD, card_bytes
from trm_data.catalog.schema import TABLES
from trm_data.catalog.write import catalog_tables, write_attachments, write_catalog_files
from trm_data.errors import BuildError, not_written
from trm_data.kinds.base import Kind
from trm_data.manifest import Manifest, ShardEntry, SplitEntry, write_manifest
from trm_data.records import Selection
from trm_data.shards.reader import content_digest, split_digest
from trm_data.shards.writer import sidecar_name
from trm_data.show.progress import Progress
from trm_data.specs import BUILDER_VERSION, DatasetSpec, canonical_json
from trm_data.storage.root import DatasetFolder
from trm_data.storage.store import Lease

ShardsOf = dict[str, list[tuple[ShardJob, WrittenShard]]]
"""The shards of each split, in order."""
BLANK_IDENTIFIERS = hashlib.sha256(canonical_json(["<blank>"])).hexdigest()
"""Digest of the identifiers of a dataset in which all puzzles share the blank identifier."""


def finish_build(
    kind: Kind,
    folder: DatasetFolder,
    lease: Lease,
    spec: DatasetSpec,
    selection: Selection,
    jobs: list[ShardJob],
    written: list[WrittenShard],
    progress: Progress,
) -> Manifest:
    """Write the catalog files and, last of all, the manifest."""
    progress.start("write catalog", len(TABLES), "tables")
    shards_of: ShardsOf = {
        split: [(job, shard) for shard, job in zip(written, jobs, strict=True) if job.split == split]
        for split in selection.splits
    }
    manifest = _manifest(kind, folder.name, spec, selection, shards_of)
    lease.check()
    kept = (name for job in jobs for name in (job.file, sidecar_name(job.file)))
    folder.remove_leftovers(kept, lease.check)
    made = {split: [shard.made for _, shard in shards] for split, shards in shards_of.items()}
    try:
        catalog = write_catalog_files(
            folder.here, manifest.name, catalog_tables(kind, manifest, selection, made)
        )
        catalog += write_attachments(folder.here, selection.attachments)
        manifest = replace(manifest, catalog=tuple(catalog))
        for file in catalog:
            folder.publish_built(file, lease.check)
        folder.publish_note(CARD, card_bytes(manifest, selection.sources), lease.check)
        lease.check()
        write_manifest(folder, manifest)
        if not folder.store.local:  # the files that the build left on this machine
            shutil.rmtree(folder.here, ignore_errors=True)
        progress.advance(len(TABLES))
    except OSError as error:
        raise BuildError(not_written(folder.here, error, "build again")) from error
    return manifest


def _manifest(
    kind: Kind, name: str, spec: DatasetSpec, selection: Selection, shards_of: ShardsOf
) -> Manifest:
    """Return the manifest without catalog files."""
    geometry = kind.geometry(spec)
    splits: dict[str, SplitEntry] = {}
    for split, groups in selection.splits.items():
        augmented = spec.augment == "virtual" and groups.num_puzzles > len(groups)
        digests = (shard.info.group_digest_bytes() for _, shard in shards_of[split])
        splits[split] = SplitEntry(
            num_groups=len(groups),
            num_puzzles=groups.num_puzzles,
            num_examples=groups.num_examples,
            digest=split_digest(
                geometry.sequence_length, digests, virtual=spec.digest() if augmented else ""
            ),
            shards=tuple(
                ShardEntry(**{each.name: getattr(shard.info, each.name) for each in fields(ShardEntry)})
                for _, shard in shards_of[split]
            ),
        )
    return Manifest(
        name=name,
        kind=spec.kind,
        spec=spec,
        spec_digest=spec.digest(),
        content_digest=content_digest({split: entry.digest for split, entry in splits.items()}),
        builder_version=BUILDER_VERSION,
        built_at=datetime.now(UTC).isoformat(timespec="seconds"),
        sequence_length=geometry.sequence_length,
        vocabulary_size=geometry.vocabulary_size,
        num_identifiers=selection.num_identifiers,
        identifiers_digest=selection.identifiers_digest or BLANK_IDENTIFIERS,
        grid_rows=geometry.grid_rows,
        grid_columns=geometry.grid_columns,
        splits=splits,
        catalog=(),
        libraries={package: version(package) for package in ("array-record", "numba", "numpy", "pyarrow")},
    )
