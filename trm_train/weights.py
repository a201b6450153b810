"""Weights files, in the format of their suffix. Nothing in a file is executed."""

from __future__ import annotations

import zipfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import not_written
from trm_train.errors import CheckpointError, ConfigError

FLOATS = ("float64", "float32", "float16", "bfloat16")


def is_weights_file(reference: str) -> bool:
    """Return whether a reference names a weights file, judged by its suffix; PyTorch's are refused when read."""
    return Path(reference).suffix in (*READERS, ".pt", ".pth")


def read_weights(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read the tensors of a file by name, as float32."""
    if path.suffix not in READERS:
        expected = f"expected {', '.join(READERS)}"
        raise ConfigError(
            f"{path}: suffix {path.suffix!r} ({expected}; docs/training.md converts a file of PyTorch)"
        )
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    return READERS[path.suffix](path)


def write_weights_file(path: Path, arrays: Mapping[str, NDArray[np.float32]]) -> None:
    """Write tensors by name as safetensors, atomically."""
    check_output(path)
    temporary = path.with_name(f".tmp-{path.name}")
    try:
        write_safetensors(temporary, arrays, "format", "pt")
        temporary.rename(path)
    except OSError as error:
        raise CheckpointError(not_written(path, error, "try again")) from error
    finally:
        temporary.unlink(missing_ok=True)


def check_output(path: Path) -> None:
    """Check the suffix of an output file, and that the file does not exist."""
    if path.suffix != ".safetensors":
        raise ConfigError(f"--out {path}: suffix {path.suffix!r} (expected .safetensors)")
    if path.exists():
        raise ConfigError(f"--out {path}: the file exists. Choose another name.")


def read_npz(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read the arrays of an uncompressed file (`np.savez`) by name, as float32."""
    try:
        with zipfile.ZipFile(path) as archive:
            if (total := sum(member.file_size for member in archive.infolist())) > path.stat().st_size:
                raise ValueError(f"{total:,} bytes of arrays are more than the file has")
        with np.load(path, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        if other := [f"{name} of {array.dtype}" for name, array in found.items() if array.dtype.kind != "f"]:
            raise ValueError(f"{', '.join(other)}; expected floating-point numbers")
    except Exception as error:  # numpy and zipfile raise many types
        raise CheckpointError(f"{path}: cannot be read as an .npz file of weights ({error})") from error
    return {name: array.astype(np.float32, copy=False) for name, array in found.items()}


def read_metadata(path: Path) -> dict[str, str]:
    """Read the metadata of a safetensors file, without its tensors."""
    with _opened(path) as file:
        return dict(file.metadata() or {})


def read_safetensors(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read the tensors of a file by name, as float32."""
    with _opened(path) as file:
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    kinds = {name: array.dtype.name for name, array in found.items()}
    if other := [f"{name} of {kind}" for name, kind in kinds.items() if kind not in FLOATS]:
        raise CheckpointError(f"{path}: {', '.join(other)}; expected floating-point numbers")
    return {name: array.astype(np.float32, copy=False) for name, array in found.items()}


@contextmanager
def _opened(path: Path) -> Generator[Any, None, None]:
    import ml_dtypes  # without it, the library has no bfloat16 in numpy
    import safetensors

    del ml_dtypes
    try:
        with safetensors.safe_open(path, "numpy") as file:
            yield file
    except (OSError, ValueError, TypeError, safetensors.SafetensorError) as error:
        raise CheckpointError(
            f"{path}: cannot be read as safetensors ({error}). Get the file again."
        ) from error


def write_safetensors(path: Path, arrays: Mapping[str, NDArray[np.float32]], key: str, value: str) -> None:
    """Write float32 tensors by name, and one entry of metadata; the same tensors give the same bytes.

    The library writes several entries of metadata in any order.
    """
    from safetensors.numpy import save_file

    save_file(
        {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}, path, {key: value}
    )


READERS = {".safetensors": read_safetensors, ".npz": read_npz}
