"""Compressed files: recognised by their first bytes, and decompressed up to a bound."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

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
    """Refuse what decompresses to far more than puzzles do.

    Raises:
        SourceError: There are more bytes than allowed.
    """
    most = max(ALWAYS_READ, MOST_RATIO * packed)
    if size > most:
        raise SourceError(
            f"{shown}: decompresses to more than {most:,} bytes (from {packed:,}), the limit for puzzle files"
        )


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
