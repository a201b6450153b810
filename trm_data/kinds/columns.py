"""Arrays by name, many times over, in one file of this machine without a name: what a choice has put out of memory."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.storage.spill import SpillFile

CODEC = "zstd"


@dataclass(frozen=True)
class Place:
    """Where arrays are in a file.

    Attributes:
        begin: First byte.
        stored: Bytes there.
        size: Bytes that they are when they are not compressed.
    """

    begin: int
    stored: int
    size: int


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

        sink = io.BytesIO()
        np.savez(sink, allow_pickle=False, **columns)
        size = sink.tell()
        content = pa.compress(sink.getvalue(), CODEC, asbytes=True)
        return Place(self._file.append(content), len(content), size)

    def read(self, place: Place) -> dict[str, NDArray[Any]]:
        """The arrays that were written there."""
        import pyarrow as pa

        content = pa.py_buffer(self._file.read(place.begin, place.stored))
        plain = pa.decompress(content, place.size, CODEC, asbytes=True)
        with np.load(io.BytesIO(plain), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}

    def close(self) -> None:
        """Give the disk back its space."""
        self._file.close()
