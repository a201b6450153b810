"""Compressed files: recognised by their first bytes, and decompressed up to a bound."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

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
"""What files are, by their first bytes."""
ALWAYS_READ = 1 << 28
MOST_RATIO = 100
"""Limit on the decompressed size: `ALWAYS_READ` bytes or `MOST_RATIO` times the compressed size, the larger of both."""
BROKEN = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, OSError)
"""What reading a broken compressed file raises."""


def find_magic(path: Path) -> str:
    """What a file is by its first bytes; empty for text and all else."""
    with path.open("rb") as file:
        head = file.read(max(map(len, MAGIC)))
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), "")


def check_size(size: int, packed: int, shown: str) -> None:
    """Refuse what decompresses to far more than puzzles do."""
    most = max(ALWAYS_READ, MOST_RATIO * packed)
    if size > most:
        raise SourceError(
            f"{shown}: decompresses to more than {most:,} bytes (from {packed:,}), the limit for puzzle files"
        )


def parquet_batches(path: Path, columns: Sequence[str], shown: str) -> Iterator[pa.RecordBatch]:
    """Some columns of a Parquet file, in batches; sizes are checked before what takes the memory.

    Numbers are counted from the metadata. Texts are read as dictionaries, since a few bytes can say that a long text
    occurs in many rows, and counted as they would be without.
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
    """Some columns of a Parquet file (`parquet_batches`)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    batches = list(parquet_batches(path, columns, shown))
    if batches:
        return pa.Table.from_batches(batches)
    schema = pq.read_schema(path)
    return schema.empty_table().select([name for name in columns if name in schema.names])


def _text_bytes(column: Any, shown: str) -> int:
    """Bytes of the texts of a column, of which a dictionary holds each once."""
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
    """What opens a compressed file; None of a file that is none."""
    if kind == "zstd":
        import pyarrow as pa

        return lambda raw: pa.CompressedInputStream(pa.PythonFile(raw, "r"), "zstd")
    return {
        "gzip": lambda raw: gzip.GzipFile(fileobj=raw),
        "bzip2": bz2.BZ2File,
        "xz": lzma.LZMAFile,
    }.get(kind)


def bounded(stream: Any, packed: int, shown: str) -> IO[bytes]:
    """A compressed file's content, which ends with an error where it is too long."""
    return cast(IO[bytes], io.BufferedReader(_Bounded(stream, packed, shown)))


class _Bounded(io.RawIOBase):
    """Counts what is read."""

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
