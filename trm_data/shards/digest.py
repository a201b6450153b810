"""The content digest: a hash over the decoded rows in order, independent of the files that store them.

Each group is hashed separately, so that shards can be written in any order, by any process. A split's digest is the
hash over its groups' hashes in group order; the dataset's is the hash over its splits. Compression, block size, shard
size and library versions do not affect it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import numpy as np

from trm_data.records import Rows

GROUP_DIGEST_BYTES = 16


def group_digests(rows: Rows) -> bytes:
    """Return the concatenated 16-byte digests of the complete groups in `rows`, in order."""
    if not len(rows):
        return b""
    boundaries = np.flatnonzero(np.diff(rows.groups)) + 1
    starts = [0, *boundaries.tolist()]
    stops = [*boundaries.tolist(), len(rows)]
    integers = np.stack([rows.puzzle_identifiers, rows.groups, rows.augmentations, rows.examples], axis=1)
    digests: list[bytes] = []
    for start, stop in zip(starts, stops, strict=True):
        digest = hashlib.sha256()
        for column in (rows.inputs, rows.labels, integers):
            digest.update(np.ascontiguousarray(column[start:stop]).data)
        digests.append(digest.digest()[:GROUP_DIGEST_BYTES])
    return b"".join(digests)


def split_digest(sequence_length: int, digests: Iterable[bytes], *, virtual: str = "") -> str:
    """Return the digest of a split from its shards' group digests, in shard order.

    Args:
        sequence_length: Cells of a row.
        digests: Concatenated group digests of each shard.
        virtual: For a virtual dataset, the digest of the specification that defines the augmentations; `digests` then
            covers the base puzzles. Empty for stored augmentations.
    """
    digest = hashlib.sha256(f"rows of {sequence_length} cells\n".encode())
    if virtual:
        digest.update(f"augmented as {virtual}\n".encode())
    for part in digests:
        digest.update(part)
    return digest.hexdigest()


def content_digest(splits: Mapping[str, str]) -> str:
    """Return the digest of a dataset from the digests of its splits."""
    digest = hashlib.sha256()
    for split in sorted(splits):
        digest.update(f"{split} {splits[split]}\n".encode())
    return digest.hexdigest()
