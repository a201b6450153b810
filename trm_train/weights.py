"""Weights files, in the format of their suffix. Nothing in a file is executed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trm_data.errors import not_written
from trm_data.sources.arrays import BROKEN
from trm_data.storage.atomic import parse_json
from trm_train.errors import CheckpointError, ConfigError


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
        write_safetensors(temporary, arrays)
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
    except BROKEN as error:
        raise CheckpointError(f"{path}: cannot be read as an .npz file of weights ({error})") from error
    return {name: array.astype(np.float32, copy=False) for name, array in found.items()}


LARGEST_HEADER_BYTES = 1 << 24
SAFETENSORS_DTYPES = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
}


def read_metadata(path: Path) -> dict[str, str]:
    """Read the metadata of a safetensors file, without its tensors."""
    try:
        with path.open("rb") as file:
            return dict(_header(file.read(8), file.read, path.stat().st_size).get("__metadata__", {}))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path}: cannot be read as safetensors ({error}). Get the file again."
        ) from error


def _header(begin: bytes, read: Callable[[int], bytes], file_bytes: int) -> dict[str, Any]:
    """Return the header, whose size is in the first 8 bytes."""
    size = int.from_bytes(begin, "little")
    if not 2 <= size <= min(LARGEST_HEADER_BYTES, file_bytes - 8):
        raise ValueError(f"a header of {size:,} bytes in a file of {file_bytes:,}")
    return parse_json(read(size))


def read_safetensors(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read the tensors of a file by name, as float32."""
    try:
        with path.open("rb") as file:
            header = _header(file.read(8), file.read, path.stat().st_size)
            data = memoryview(file.read())
        header.pop("__metadata__", None)
        spans = sorted(tuple(entry["data_offsets"]) for entry in header.values())
        ends = [0, *(end for _, end in spans)]
        if [start for start, _ in spans] != ends[:-1] or ends[-1] != len(data):
            raise ValueError("the tensors do not cover the file, each byte once")
        return {name: _array(name, entry, data) for name, entry in header.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path}: cannot be read as safetensors ({error}). Get the file again."
        ) from error


def _array(name: str, entry: Mapping[str, Any], data: memoryview) -> NDArray[np.float32]:
    dtype, shape = SAFETENSORS_DTYPES.get(entry["dtype"]), tuple(entry["shape"])
    start, end = entry["data_offsets"]
    if dtype is None:
        raise ValueError(f"{name}: type {entry['dtype']!r}; expected one of {', '.join(SAFETENSORS_DTYPES)}")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"{name}: shape {shape}")
    if end - start != prod(shape) * dtype.itemsize:
        raise ValueError(f"{name}: {end - start:,} bytes for shape {shape} of {entry['dtype']}")
    array: NDArray[Any] = np.frombuffer(data[start:end], dtype).reshape(shape)
    return widened(array) if entry["dtype"] == "BF16" else array.astype(np.float32)


def write_safetensors(
    path: Path, arrays: Mapping[str, NDArray[np.float32]], metadata: Mapping[str, str] | None = None
) -> None:
    """Write float32 tensors by name; the same tensors give the same bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **(metadata or {})}}
    start = 0
    for name in sorted(arrays):
        end = start + 4 * arrays[name].size
        header[name] = {"dtype": "F32", "shape": list(arrays[name].shape), "data_offsets": [start, end]}
        start = end
    content = json.dumps(header, separators=(",", ":")).encode()
    content += b" " * (-len(content) % 8)
    with path.open("wb") as file:
        file.write(len(content).to_bytes(8, "little") + content)
        for name in sorted(arrays):
            file.write(np.ascontiguousarray(arrays[name], "<f4").tobytes())


def widened(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Convert bfloat16 numbers, given as their bits, to float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


READERS = {".safetensors": read_safetensors, ".npz": read_npz}
