"""One shard of a build, as a task that can run on any machine that reaches the root.

Input: a slice of the chosen groups. Output: a whole shard under its final name, and how its rows were made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trm_data.kinds.base import load_kind
from trm_data.kinds.rows import base_rows, make_rows
from trm_data.records import Groups, Rows, group_ranges, part_examples
from trm_data.shards.digest import group_digests
from trm_data.shards.writer import ShardInfo, whole_shard, write_shard
from trm_data.specs import DatasetSpec, Split


@dataclass(frozen=True)
class ShardJob:
    """One shard to write.

    Attributes:
        spec: What is built.
        split: Which split.
        path: Final name of the shard.
        groups: The base puzzles of this shard.
        first_group: Number of the first of them in its split.
        identifier_each: Whether every augmentation has an identifier of its own.
    """

    spec: DatasetSpec
    split: Split
    path: Path
    groups: Groups
    first_group: int
    identifier_each: bool


@dataclass(frozen=True)
class WrittenShard:
    """A shard that is there, whole.

    Attributes:
        info: What its sidecar says.
        kept: Whether an earlier build had written it.
        offsets: Translation of each row, uint8 [N, 2]; None where there is none.
    """

    info: ShardInfo
    kept: bool
    offsets: NDArray[np.uint8] | None


def write_job(job: ShardJob) -> WrittenShard:
    """Write the shard of a job, or keep it if it is there with these very rows.

    Raises:
        BuildError: Writing failed; nothing is left under the final name.
    """
    kind = load_kind(job.spec.kind)
    groups = job.groups
    virtual = job.spec.augment == "virtual"
    counts = groups.examples_per_augmentation if virtual else groups.rows_per_group
    augmenter = None if virtual else kind.augmenter(job.spec, job.split, groups)
    offsets: list[NDArray[np.uint8]] = []

    def parts() -> Iterator[Rows]:
        for start, stop in group_ranges(counts, part_examples(groups.inputs.shape[1])):
            if augmenter is None:
                yield base_rows(groups, start, stop, first_group=job.first_group)
                continue
            rows, made = make_rows(
                augmenter,
                groups,
                start,
                stop,
                first_group=job.first_group,
                identifier_each=job.identifier_each,
            )
            if made.offsets is not None:
                offsets.append(made.offsets)
            yield rows

    spec_digest = job.spec.digest()
    info = whole_shard(job.path, spec_digest)
    if info is not None and (info.first_group, info.num_groups) == (job.first_group, len(groups)):
        if b"".join(map(group_digests, parts())) == info.group_digest_bytes():
            return WrittenShard(info, kept=True, offsets=_joined(offsets))
        offsets.clear()
    info = write_shard(
        job.path,
        parts(),
        sequence_length=groups.inputs.shape[1],
        spec_digest=spec_digest,
        first_group=job.first_group,
    )
    return WrittenShard(info, kept=False, offsets=_joined(offsets))


def _joined(offsets: list[NDArray[np.uint8]]) -> NDArray[np.uint8] | None:
    return np.concatenate(offsets) if offsets else None
