"""Arrays of integers from untrusted npy and npz files. Nothing is unpickled."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import SourceError
from trm_data.sources.unpack import check_size


def load_npy(path: Path, shown: str = "") -> NDArray[Any]:
    """Memory-map an array of integers from a file, which messages call `shown`."""
    shown = shown or str(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = np.load(path, allow_pickle=False, mmap_mode="r")
    except FileNotFoundError:
        raise SourceError(f"{shown}: no such file") from None
    except Exception as error:  # numpy raises many types for truncated, damaged or forged files
        raise SourceError(f"{shown}: is not an npy file that can be read without pickle ({error})") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise SourceError(f"{shown}: is an npz file, expected npy")
    return _integers(shown, array)


def names_in_npz(path: Path, shown: str) -> list[str]:
    """Return the names of the arrays."""
    try:
        with zipfile.ZipFile(path) as file:
            names = file.namelist()
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise SourceError(f"{shown}: is not an npz file ({error})") from error
    if not names or not all(name.endswith(".npy") for name in names):
        raise SourceError(
            f"{shown}: is a zip archive, not npz. Unpack it and name the file in it (of a spreadsheet: save it as CSV)"
        )
    return [name.removesuffix(".npy") for name in names]


def load_npz(
    path: Path, names: tuple[str, ...], shown: str, *, texts: bool = False
) -> dict[str, NDArray[Any]]:
    """Read arrays of integers, and of texts if `texts`, by name."""
    arrays: dict[str, NDArray[Any]] = {}
    if not zipfile.is_zipfile(path):
        raise SourceError(f"{shown}: is not an npz file")
    try:
        with path.open("rb") as stream, zipfile.ZipFile(stream) as file:
            found = [member.removesuffix(".npy") for member in file.namelist()]
            missing = [name for name in names if name not in found]
            if missing:
                raise SourceError(f"{shown}: has no array {missing[0]!r}; found {', '.join(found)}")
            for name in names:
                check_size(file.getinfo(f"{name}.npy").file_size, path.stat().st_size, f"{shown}: {name}")
                with warnings.catch_warnings(), file.open(f"{name}.npy") as member:
                    warnings.simplefilter("ignore")
                    arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
    except SourceError:
        raise
    except Exception as error:  # numpy and zipfile raise many types
        raise SourceError(f"{shown}: is not an npz file that can be read without pickle ({error})") from error
    return {name: _integers(f"{shown}: {name}", array, texts=texts) for name, array in arrays.items()}


def _integers(shown: str, array: NDArray[Any], *, texts: bool = False) -> NDArray[Any]:
    if not np.issubdtype(array.dtype, np.integer) and not (texts and array.dtype.kind in "USf"):
        raise SourceError(
            f"{shown}: has type {array.dtype}; expected integers{' and texts' if texts else ''}"
        )
    return array
