"""One shard of a build, as a task that can run on any machine with access to the root.

Input: a slice of the chosen groups. Output: a complete shard under its final name, and how its rows were made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trm_data.kinds.registry import load_kind
from trm_data.records import Groups, Rows, group_ranges, part_examples
from trm_data.shards.reader import group_digests
from trm_data.shards.writer import (
    ShardInfo,
    sidecar_from_bytes,
    sidecar_name,
    sidecar_to_bytes,
    write_shard,
)
from trm_data.specs import BLOCK_EXAMPLES, DatasetSpec, Split
from trm_data.storage.root import DatasetFolder
from trm_data.storage.store import Lease
from trm_data.symmetry.base import MadeRows, base_rows, make_rows


@dataclass(frozen=True)
class ShardJob:
    """One shard to write.

    Attributes:
        spec: Specification of the dataset.
        split: Split of the shard.
        folder: The dataset's folder.
        file: Name of the shard within it.
        groups: The base puzzles of this shard.
        first_group: Number of the first group in its split.
        lease: Lease of the folder.
    """

    spec: DatasetSpec
    split: Split
    folder: DatasetFolder
    file: str
    groups: Groups
    first_group: int
    lease: Lease


@dataclass(frozen=True)
class WrittenShard:
    """A complete shard.

    Attributes:
        info: Content of its sidecar.
        kept: Whether an earlier build had written it.
        made: How the rows were made; None if they were not made here.
    """

    info: ShardInfo
    kept: bool
    made: MadeRows | None


def write_job(job: ShardJob) -> WrittenShard:
    """Write the shard of a job, or keep an existing shard with exactly these rows."""
    kind = load_kind(job.spec.kind)
    groups = job.groups
    virtual = job.spec.augment == "virtual"
    counts = groups.examples_per_augmentation if virtual else groups.rows_per_group
    made_here = not virtual and groups.imported is None
    augmenter = kind.augmenter(job.spec, job.split, groups) if made_here else None
    made_parts: list[MadeRows] = []

    def parts() -> Iterator[Rows]:
        for start, stop in group_ranges(counts, part_examples(groups.inputs.shape[1])):
            if groups.imported is not None:
                part = groups.slice(start, stop).imported
                assert part is not None
                yield part
                continue
            if augmenter is None:
                yield base_rows(groups, start, stop, first_group=job.first_group)
                continue
            rows, made = make_rows(
                augmenter,
                groups,
                start,
                stop,
                first_group=job.first_group,
                identifier_each=kind.geometry(job.spec).identifier_each,
            )
            made_parts.append(MadeRows(made.elements[rows.examples == 0], made.offsets))
            yield rows

    spec_digest = job.spec.digest()
    info = _stored_shard(job, spec_digest)
    examples = int(counts.sum())
    asked = (job.first_group, len(groups), examples, -(-examples // BLOCK_EXAMPLES))
    if info and asked == (info.first_group, info.num_groups, info.num_examples, info.num_records):
        if b"".join(map(group_digests, parts())) == info.group_digest_bytes():
            return WrittenShard(info, True, _joined(made_parts))
        made_parts.clear()
    info = write_shard(
        job.folder.working(job.file),
        parts(),
        sequence_length=groups.inputs.shape[1],
        spec_digest=spec_digest,
        first_group=job.first_group,
    )
    job.folder.publish_built(info, job.lease.check)
    job.folder.publish_note(sidecar_name(job.file), sidecar_to_bytes(info), job.lease.check)
    return WrittenShard(info, False, _joined(made_parts))


def _stored_shard(job: ShardJob, spec_digest: str) -> ShardInfo | None:
    """Return the sidecar of a complete stored shard of this specification, else None."""
    note = job.folder.read(sidecar_name(job.file))
    info = sidecar_from_bytes(note) if note is not None else None
    if info is None or info.spec_digest != spec_digest or info.file != job.file:
        return None
    return None if job.folder.damaged([info]) else info


def _joined(parts: list[MadeRows]) -> MadeRows | None:
    if not parts:
        return None
    offsets = [part.offsets for part in parts if part.offsets is not None]
    return MadeRows(
        np.concatenate([part.elements for part in parts]), np.concatenate(offsets) if offsets else None
    )
