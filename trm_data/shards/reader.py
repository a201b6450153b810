"""Read a shard back into rows, after checking that it is the file its manifest names.

A missing path does not make ArrayRecord raise, and nothing in it counts rows: every check is here.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from trm_data.encode.block import BlockDecoder
from trm_data.errors import CorruptDatasetError
from trm_data.records import Rows
from trm_data.shards.threads import check_threads
from trm_data.specs import BLOCK_EXAMPLES

LARGE_CELLS = 32 << 20
"""A shard with more is read some records at a time."""
RECORDS_AT_ONCE = 8
FRAME_BYTES, FOOTER_BYTES = 4_096, 1 << 24
"""Bounds of what a record has beside its rows, and of ArrayRecord's index of a shard."""
BLOCK_BYTES, BLOCK_HEADER_BYTES, CHUNK_HEADER_BYTES = 65_536, 24, 40
"""Of Riegeli's files."""


class RowsMemory:
    """Memory for the rows of one large shard after the other: pages that the system has given are filled again."""

    def __init__(self) -> None:
        self._rows: Rows | None = None

    def rows(self, num_examples: int, sequence_length: int) -> Rows:
        """Arrays of this many rows, in the memory of the last ones."""
        rows = self._rows
        if rows is None or len(rows) < num_examples or rows.inputs.shape[1] != sequence_length:
            self._rows = None  # before there are two
            rows = self._rows = Rows.empty(num_examples, sequence_length)
        return rows.slice(0, num_examples)


def read_rows(
    path: Path,
    *,
    sequence_length: int,
    num_records: int,
    num_examples: int,
    memory: RowsMemory | None = None,
) -> Rows:
    """All rows of a shard.

    Args:
        path: The shard.
        sequence_length: Cells of a row.
        num_records: Records that it should have.
        num_examples: Rows that it should have.
        memory: Where the rows of a large shard (`LARGE_CELLS`) are put; those that were before are gone.
    """
    decoder = BlockDecoder(sequence_length)
    _check_sizes(path, num_records, num_examples, sequence_length)
    with _opened(path) as reader:
        if reader.num_records() != num_records:
            raise CorruptDatasetError(
                f"{path}: has {reader.num_records()} records, the manifest says {num_records}"
            )
        large = num_examples * sequence_length > LARGE_CELLS
        blocks = (_decoded(path, decoder, record) for record in _records(reader, num_records, large=large))
        if large:
            rows, found = _filled(path, blocks, num_examples, sequence_length, memory or RowsMemory())
        else:
            parts = list(blocks)
            rows, found = Rows.concatenate(parts), sum(map(len, parts))
    if found != num_examples:
        raise CorruptDatasetError(f"{path}: has {found:,} examples, the manifest says {num_examples:,}")
    return rows


def _check_sizes(path: Path, num_records: int, num_examples: int, sequence_length: int) -> None:
    """Refuse a shard whose records decompress to more than its rows take, before any of them is decompressed.

    The header of each Riegeli chunk says it, and the decoder refuses a chunk of another size
    (github.com/google/riegeli/blob/master/doc/riegeli_records_file_format.md).
    """
    row_bytes = 2 * sequence_length + 4 * 4
    most = BLOCK_EXAMPLES * row_bytes + FRAME_BYTES
    left = num_examples * row_bytes + num_records * FRAME_BYTES + FOOTER_BYTES
    for decoded_bytes in _decoded_sizes(path):  # a record each, and the index
        left -= decoded_bytes
        if left < 0 or decoded_bytes > max(most, FOOTER_BYTES):
            raise CorruptDatasetError(
                f"{path}: a chunk decompresses to {decoded_bytes:,} bytes, more than {num_examples:,} examples of "
                f"{sequence_length} cells in {num_records:,} records take. Copy or build the dataset again."
            )


def _decoded_sizes(path: Path) -> Iterator[int]:
    """Bytes of each chunk of a file, as its header says; none of a file that cannot be read: the reader says why."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            begin = 0
            while len(header := _chunk_header(content, begin)) == CHUNK_HEADER_BYTES:
                _, data_bytes, _, kind_and_count, decoded_bytes = struct.unpack("<5Q", header)
                yield decoded_bytes
                end = _after(begin, CHUNK_HEADER_BYTES + data_bytes)
                begin = max(end, _after(begin, kind_and_count >> 8))  # at least a byte a record
    except (OSError, ValueError):
        return


def _chunk_header(content: mmap.mmap, begin: int) -> bytes:
    """The header of the chunk that begins there, without headers of blocks in it; shorter at the end of the file."""
    found, at = b"", begin
    while len(found) < CHUNK_HEADER_BYTES and at < len(content):
        at += BLOCK_HEADER_BYTES * (at % BLOCK_BYTES == 0)
        part = content[at : min(at + CHUNK_HEADER_BYTES - len(found), at - at % BLOCK_BYTES + BLOCK_BYTES)]
        found, at = found + part, at + max(len(part), 1)
    return found


def _after(begin: int, count: int) -> int:
    """Where this many bytes from there end, with the headers of blocks among them."""
    usable = BLOCK_BYTES - BLOCK_HEADER_BYTES
    return begin + count + BLOCK_HEADER_BYTES * ((count + (begin + usable - 1) % BLOCK_BYTES) // usable)


def _filled(
    path: Path, blocks: Iterator[Rows], num_examples: int, sequence_length: int, memory: RowsMemory
) -> tuple[Rows, int]:
    """Arrays of `num_examples` rows with those of the blocks in them, and how many these have."""
    try:
        rows = memory.rows(num_examples, sequence_length)
    except (MemoryError, ValueError) as error:
        raise CorruptDatasetError(
            f"{path}: not enough memory for the {num_examples:,} examples of the manifest"
        ) from error
    columns, found = rows.columns(), 0
    for block in blocks:
        if found + len(block) <= num_examples:
            for name, column in block.columns().items():
                columns[name][found : found + len(block)] = column
        found += len(block)
    return rows, found


def _records(reader: Any, num_records: int, *, large: bool) -> Iterator[bytes]:
    """All records, of a large shard some at a time: their memory is used again, which then counts for more."""
    if not large:
        yield from reader.read_all()
        return
    for start in range(0, num_records, RECORDS_AT_ONCE):
        yield from reader.read(list(range(start, min(start + RECORDS_AT_ONCE, num_records))))


def read_block(path: Path, record: int, *, sequence_length: int) -> Rows:
    """One block of a shard that was checked before."""
    with _opened(path) as reader:
        if not 0 <= record < reader.num_records():
            raise CorruptDatasetError(f"{path}: has no record {record}")
        content = reader.read([record])[0]
    return _decoded(path, BlockDecoder(sequence_length), content)


def _decoded(path: Path, decoder: BlockDecoder, record: bytes) -> Rows:
    """The rows of a record."""
    try:
        rows = decoder.decode(record)
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
    """ArrayRecord's reader of a file; whatever it says against the file, when it is closed too, is one error."""
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
        with suppress(RuntimeError, ValueError):  # it says again what it said before
            reader.close()
