"""A file of this machine for what does not fit into memory: it has no name, so nothing is left of it.

Whoever holds it reads and writes by offset; the disk has the space back when it is closed or the process ends, however
that ends.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import BuildError, not_written

MOST_AT_ONCE = 1 << 30
"""Bytes of one system call; Linux takes at most 2 GiB."""


class SpillFile:
    """Bytes on the disk, in the order in which they were appended.

    Args:
        folder: Where; made if it is not there. None for the system's folder of temporary files.
    """

    def __init__(self, folder: Path | None) -> None:
        self._where = Path(tempfile.gettempdir()) if folder is None else folder
        self.size = 0
        try:
            self._where.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._where, prefix=".tmp-", buffering=0) as file:
                self._file = os.dup(file.fileno())
        except OSError as error:
            raise BuildError(not_written(self._where, error, "build again")) from error
        self.close = weakref.finalize(self, os.close, self._file)

    def append(self, content: bytes | NDArray[np.generic]) -> int:
        """Write at the end; returns where that begins.

        Raises:
            BuildError: The disk is full, or refuses.
        """
        begin = self.size
        left = memoryview(content if isinstance(content, bytes) else content.tobytes())
        try:
            while len(left):
                written = os.pwrite(self._file, left[:MOST_AT_ONCE], self.size)
                self.size += written
                left = left[written:]
        except OSError as error:
            raise BuildError(not_written(self._where, error, "build again")) from error
        return begin

    def read(self, begin: int, size: int) -> NDArray[np.uint8]:
        """The bytes from `begin` on, uint8 [size].

        Raises:
            BuildError: They cannot be read.
        """
        found = np.empty(size, np.uint8)
        left = memoryview(found.data)
        try:
            while len(left):
                count = os.preadv(self._file, [left[:MOST_AT_ONCE]], begin + size - len(left))
                if not count:
                    raise OSError(f"ends at {begin + size - len(left)}")
                left = left[count:]
        except OSError as error:
            raise BuildError(
                f"{self._where}: what was written there cannot be read ({error}); build again"
            ) from error
        return found
