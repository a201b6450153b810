"""Compressed files: detected by their first bytes, and decompressed up to a limit."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from typing_extensions import override

from trm_data.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

ENDINGS = (".gz", ".bz2", ".xz", ".zst")
MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"PAR1": "parquet",
    b"\x93NUMPY": "npy",
}
"""File types by their first bytes."""
ALWAYS_READ = 1 << 28
MOST_RATIO = 100
"""Limit on the decompressed size: `ALWAYS_READ` bytes or `MOST_RATIO` times the compressed size, the larger of both."""
BROKEN = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, OSError)
"""Exceptions that reading a broken compressed file raises."""


def find_magic(path: Path) -> str:
    """Return the type of a file by its first bytes; empty for text and unknown types."""
    with path.open("rb") as file:
        head = file.read(max(map(len, MAGIC)))
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), "")


def check_size(size: int, packed: int, shown: str) -> None:
    """Raise SourceError if data decompress to far more bytes than puzzle files do."""
    most = max(ALWAYS_READ, MOST_RATIO * packed)
    if size > most:
        raise SourceError(
            f"{shown}: decompresses to more than {most:,} bytes (from {packed:,}), the limit for puzzle files"
        )


def parquet_batches(path: Path, columns: Sequence[str], shown: str) -> Iterator[pa.RecordBatch]:
    """Yield columns of a Parquet file in batches, after checking sizes before memory is allocated.

    Sizes of numbers come from the metadata. Texts are read as dictionaries, because a few bytes can encode a long text
    in many rows; the check counts their full size.
    """
    import pyarrow.parquet as pq

    packed = path.stat().st_size
    metadata = pq.read_metadata(path)
    leaves = {i: metadata.schema.column(i) for i in range(metadata.num_columns)}
    leaves = {i: leaf for i, leaf in leaves.items() if leaf.path.split(".")[0] in columns}
    size = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for i, leaf in leaves.items():
            chunk = group.column(i)
            size += max(chunk.num_values * max(leaf.length, 1), chunk.total_uncompressed_size)
    check_size(size, packed, shown)
    texts = [leaf.path for leaf in leaves.values() if leaf.physical_type == "BYTE_ARRAY"]
    size = 0
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        for batch in file.iter_batches(columns=list(columns)):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                size += _text_bytes(column, f"{shown}: column {name}")
            check_size(size, packed, shown)
            yield batch


def read_parquet(path: Path, columns: Sequence[str], shown: str) -> pa.Table:
    """Read columns of a Parquet file, with the checks of `parquet_batches`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    batches = list(parquet_batches(path, columns, shown))
    if batches:
        return pa.Table.from_batches(batches)
    schema = pq.read_schema(path)
    return schema.empty_table().select([name for name in columns if name in schema.names])


def _text_bytes(column: Any, shown: str) -> int:
    """Return the full size in bytes of a column's texts, which a dictionary stores only once each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.types
    while (
        kind.is_list(column.type) or kind.is_large_list(column.type) or kind.is_fixed_size_list(column.type)
    ):
        column = column.flatten()
    if kind.is_nested(column.type):
        raise SourceError(f"{shown} has type {column.type}; expected numbers, text or lists of them")
    if not kind.is_dictionary(column.type):
        return 0
    lengths = pc.binary_length(column.dictionary)  # pyright: ignore[reportAttributeAccessIssue]
    return int(pc.sum(lengths.take(column.indices)).as_py() or 0)  # pyright: ignore[reportAttributeAccessIssue]


def decompressor(kind: str) -> Callable[[IO[bytes]], Any] | None:
    """Return the function that opens a compressed file, or None if the type is not compressed."""
    if kind == "zstd":
        import pyarrow as pa

        return lambda raw: pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd")
    return {
        "gzip": lambda raw: gzip.GzipFile(fileobj=raw),
        "bzip2": bz2.BZ2File,
        "xz": lzma.LZMAFile,
    }.get(kind)


class Bounded(io.RawIOBase):
    """Stream of decompressed content that raises an error if it is too long."""

    def __init__(self, stream: Any, packed: int, shown: str) -> None:
        self._stream, self._packed, self._shown, self._read = stream, packed, shown, 0

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        self._read += len(data)
        check_size(self._read, self._packed, self._shown)
        buffer[: len(data)] = data
        return len(data)
