"""Compressed files: detected by their first bytes, and decompressed up to a limit."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from typing_extensions import override

from trm_data.errors import SourceError

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
