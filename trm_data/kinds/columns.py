"""Arrays by name, many times over, in one file of this machine without a name: what a choice has put out of memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.storage.spill import SpillFile

CODEC, LEVEL = "zstd", 1


@dataclass(frozen=True)
class _Column:
    """Where an array is, and what it is.

    Attributes:
        begin: First byte in the file.
        stored: Bytes there.
        dtype: As numpy writes it.
        shape: Of the array.
    """

    begin: int
    stored: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes when they are not compressed."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize


Place = Mapping[str, _Column]
"""Where arrays are that were written together."""


class ColumnStore:
    """Arrays, compressed.

    Args:
        folder: Where the file is; None for the system's folder of temporary files.
    """

    def __init__(self, folder: Path | None) -> None:
        self._file = SpillFile(folder)

    def append(self, columns: Mapping[str, NDArray[Any]]) -> Place:
        """Write arrays; returns where they are.

        Raises:
            BuildError: The disk is full, or refuses.
        """
        import pyarrow as pa

        codec = pa.Codec(CODEC, compression_level=LEVEL)
        place: dict[str, _Column] = {}
        for name, values in columns.items():
            plain = np.ascontiguousarray(values)
            content = codec.compress(plain.reshape(-1).view(np.uint8), asbytes=True)
            begin = self._file.append(content)
            place[name] = _Column(begin, len(content), plain.dtype.str, plain.shape)
        return place

    def read(self, place: Place, names: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
        """The arrays that were written there; only those of `names`, if given."""
        import pyarrow as pa

        codec, found = pa.Codec(CODEC), dict[str, NDArray[Any]]()
        for name, column in place.items():
            if names is None or name in names:
                content = pa.py_buffer(self._file.read(column.begin, column.stored))
                plain = codec.decompress(content, column.size, asbytes=False)
                values = np.frombuffer(plain, np.dtype(column.dtype)).reshape(column.shape)
                found[name] = values.copy()  # kernels are compiled for arrays that may be written
        return found

    def close(self) -> None:
        """Give the disk back its space."""
        self._file.close()
