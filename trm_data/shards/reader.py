"""Read a shard into rows, after checking that it is the file named in its manifest; the content digest of rows.

ArrayRecord does not raise an error for a missing path and does not count rows, so all checks are here.

The content digest is a hash over the decoded rows in order, independent of the files that store them. Each group is
hashed separately, so that shards can be written in any order, by any process. A split's digest is the hash over its
groups' hashes in group order; the dataset's is the hash over its splits. Compression, block size, shard size and
library versions do not affect it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trm_data.encode import block_schema, decode_block
from trm_data.errors import CorruptDatasetError, ScarceError
from trm_data.records import Rows
from trm_data.specs import BLOCK_EXAMPLES

if TYPE_CHECKING:
    import pyarrow as pa

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


READER_THREADS = 64
"""Size of the thread pool shared by all readers of a process; the first reader starts it, whatever its options."""
MARGIN = 8


@cache
def check_threads() -> None:
    """Check once per process, before the first shard is opened, that as many threads as a reader needs can start."""
    ended = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(READER_THREADS + MARGIN):
            thread = threading.Thread(target=ended.wait, daemon=True)
            thread.start()
            started.append(thread)
    except (RuntimeError, MemoryError) as error:
        raise ScarceError(
            f"cannot start {READER_THREADS} threads to read and write shards ({error}). Raise the limit (ulimit -v, "
            f"ulimit -u, the container's), or use fewer --workers"
        ) from error
    finally:
        ended.set()
        for thread in started:
            thread.join()


RECORDS_AT_ONCE = 8


def read_rows(path: Path, *, sequence_length: int, num_records: int, num_examples: int) -> Rows:
    """Return all rows of a shard, read a few records at a time: memory holds the rows once.

    Args:
        path: The shard.
        sequence_length: Cells of a row.
        num_records: Expected number of records.
        num_examples: Expected number of rows.
    """
    try:
        rows = Rows.empty(num_examples, sequence_length)
    except (MemoryError, ValueError) as error:
        raise CorruptDatasetError(
            f"{path}: not enough memory for the {num_examples:,} examples of the manifest"
        ) from error
    schema, columns, found = block_schema(sequence_length), rows.columns(), 0
    with _opened(path) as reader:
        if reader.num_records() != num_records:
            raise CorruptDatasetError(
                f"{path}: has {reader.num_records()} records, the manifest says {num_records}"
            )
        for start in range(0, num_records, RECORDS_AT_ONCE):
            for record in reader.read(list(range(start, min(start + RECORDS_AT_ONCE, num_records)))):
                block = _decoded(path, schema, record)
                if found + len(block) <= num_examples:
                    for name, column in block.columns().items():
                        columns[name][found : found + len(block)] = column
                found += len(block)
    if found != num_examples:
        raise CorruptDatasetError(f"{path}: has {found:,} examples, the manifest says {num_examples:,}")
    return rows


def read_block(path: Path, record: int, *, sequence_length: int) -> Rows:
    """Return one block of a shard that was already checked."""
    with _opened(path) as reader:
        if not 0 <= record < reader.num_records():
            raise CorruptDatasetError(f"{path}: has no record {record}")
        content = reader.read([record])[0]
    return _decoded(path, block_schema(sequence_length), content)


def _decoded(path: Path, schema: pa.Schema, record: bytes) -> Rows:
    try:
        rows = decode_block(record, schema)
    except CorruptDatasetError as error:
        raise CorruptDatasetError(f"{path}: {error}") from error
    if not 1 <= len(rows) <= BLOCK_EXAMPLES:
        raise CorruptDatasetError(
            f"{path}: a record has {len(rows):,} rows (expected 1 to {BLOCK_EXAMPLES}). "
            "Copy or build the dataset again."
        )
    return rows


@contextmanager
def _opened(path: Path) -> Generator[Any, None, None]:
    """Open a file with ArrayRecord; convert its errors, also those at closing, to CorruptDatasetError."""
    from array_record.python.array_record_module import ArrayRecordReader

    check_threads()
    reader = ArrayRecordReader(str(path))
    try:
        if not reader.ok():
            raise CorruptDatasetError(f"{path}: is not an ArrayRecord file")
        yield reader
    except (RuntimeError, ValueError, IndexError) as error:
        raise CorruptDatasetError(f"{path}: cannot be read ({error})") from error
    finally:
        with suppress(RuntimeError, ValueError):  # it repeats the earlier error
            reader.close()
