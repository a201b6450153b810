"""Arrays by name in `.npz` files that numpy reads without pickle."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_train.errors import CheckpointError

DTYPES: tuple[np.dtype[Any], ...] = tuple(np.dtype(name) for name in ("<f4", "<f2", "<f8"))


def write_npz(path: Path, arrays: Mapping[str, NDArray[np.float32]]) -> None:
    """Write arrays by name, the same bytes for the same arrays.

    Raises:
        OSError: The file cannot be written.
    """
    with path.open("wb") as file:
        np.savez(file, **{name: np.ascontiguousarray(arrays[name]) for name in sorted(arrays)})  # pyright: ignore[reportArgumentType]


def read_npz(
    path: Path, largest_bytes: int | None = None, dtypes: Sequence[np.dtype[Any]] = DTYPES
) -> dict[str, NDArray[np.float32]]:
    """The arrays of a file that anyone may have written, as float32.

    Args:
        path: The file.
        largest_bytes: Maximum size of an array; None for the size of the file.
        dtypes: Types that an array may have.

    Raises:
        CheckpointError: It holds something else than stored floating-point arrays, or more than its size.
    """
    found: dict[str, NDArray[np.float32]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if (total := sum(member.file_size for member in members)) > path.stat().st_size:
                raise ValueError(f"{total:,} bytes of arrays are more than the file has")
            for member in members:
                name = member.filename.removesuffix(".npy")
                if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
                    raise ValueError(f"{member.filename!r} is compressed (expected stored arrays: np.savez)")
                largest = member.file_size if largest_bytes is None else largest_bytes + 10_000
                if name == member.filename or name in found or member.file_size > largest:
                    raise ValueError(
                        f"{member.filename!r} ({member.file_size:,} bytes): expected .npy, once, up to {largest:,}"
                    )
                found[name] = _read_array(archive, member, dtypes)
    except (OSError, ValueError, KeyError, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path}: cannot be read as an .npz file of weights ({error})") from error
    return found


def _read_array(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, dtypes: Sequence[np.dtype[Any]]
) -> NDArray[np.float32]:
    """One array; what its header says is compared with its size before anything is allocated."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"{member.filename}: format {version} of arrays")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        if dtype not in dtypes or (fortran and len(shape) > 1):
            kinds = " or ".join(map(str, dtypes))
            raise ValueError(f"{member.filename}: {dtype}, expected {kinds}, row by row")
        content = file.read()
    if len(content) != dtype.itemsize * prod(shape):
        raise ValueError(f"{member.filename}: {len(content):,} bytes of shape {shape}")
    return np.frombuffer(content, dtype).reshape(shape).astype(np.float32, copy=False)
