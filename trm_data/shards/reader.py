"""Read a shard into rows, after checking that it is the file named in its manifest; the content digest of rows.

ArrayRecord does not raise an error for a missing path and does not count rows, so all checks are here.

The content digest is a hash over the decoded rows in order, independent of the files that store them. Each group is
hashed separately, so that shards can be written in any order, by any process. A split's digest is the hash over its
groups' hashes in group order; the dataset's is the hash over its splits. Compression, block size, shard size and
library versions do not affect it.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
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
FRAME_BYTES, FOOTER_BYTES = 4_096, 1 << 24
"""Maximum bytes in a record besides its rows, and in ArrayRecord's index of a shard."""
BLOCK_BYTES, BLOCK_HEADER_BYTES, CHUNK_HEADER_BYTES = 65_536, 24, 40
"""Sizes of blocks and headers in Riegeli's file format."""


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
    _check_sizes(path, num_records, num_examples, sequence_length)
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


def _check_sizes(path: Path, num_records: int, num_examples: int, sequence_length: int) -> None:
    """Reject a shard whose records decompress to more bytes than its rows need, before decompressing any.

    The header of each Riegeli chunk states the size, and the decoder rejects a chunk of another size
    (github.com/google/riegeli/blob/master/doc/riegeli_records_file_format.md).
    """
    row_bytes = 2 * sequence_length + 4 * 4
    most = BLOCK_EXAMPLES * row_bytes + FRAME_BYTES
    left = num_examples * row_bytes + num_records * FRAME_BYTES + FOOTER_BYTES
    for decoded_bytes in _decoded_sizes(path):  # one chunk for each record, and one for the index
        left -= decoded_bytes
        if left < 0 or decoded_bytes > max(most, FOOTER_BYTES):
            raise CorruptDatasetError(
                f"{path}: a chunk decompresses to {decoded_bytes:,} bytes, more than {num_examples:,} examples of "
                f"{sequence_length} cells in {num_records:,} records take. Copy or build the dataset again."
            )


def _decoded_sizes(path: Path) -> Iterator[int]:
    """Yield the decoded size of each chunk from its header; stop at unreadable data, which the reader reports."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            begin = 0
            while len(header := _chunk_header(content, begin)) == CHUNK_HEADER_BYTES:
                _, data_bytes, _, kind_and_count, decoded_bytes = struct.unpack("<5Q", header)
                yield decoded_bytes
                end = _after(begin, CHUNK_HEADER_BYTES + data_bytes)
                begin = max(end, _after(begin, kind_and_count >> 8))  # at least one byte for each record
    except (OSError, ValueError):
        return


def _chunk_header(content: mmap.mmap, begin: int) -> bytes:
    """Return the header of the chunk at `begin`, without block headers inside it; shorter at the end of the file."""
    found, at = b"", begin
    while len(found) < CHUNK_HEADER_BYTES and at < len(content):
        at += BLOCK_HEADER_BYTES * (at % BLOCK_BYTES == 0)
        part = content[at : min(at + CHUNK_HEADER_BYTES - len(found), at - at % BLOCK_BYTES + BLOCK_BYTES)]
        found, at = found + part, at + max(len(part), 1)
    return found


def _after(begin: int, count: int) -> int:
    """Return the offset after `count` bytes from `begin`, including the block headers in between."""
    usable = BLOCK_BYTES - BLOCK_HEADER_BYTES
    return begin + count + BLOCK_HEADER_BYTES * ((count + (begin + usable - 1) % BLOCK_BYTES) // usable)


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
